"""Learning: what the events of runs become in memory. After a run that noted something, and each day and each week as
duties; code alone, but for pairs of statements that the model has to judge.

A pass reads the events, decides, and then changes the files; done again, it changes nothing more. A summary that comes
out empty, or cannot be written, ends its pass before memory is touched; the events stay as they are."""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from infra.cell.mind.claims import BeliefStatus, Origin
from infra.cell.mind.coherence import MOST_JUDGED_AT_ONCE, Coherence, make_coherent, report
from infra.cell.mind.judgements import Loose, against_memory, held_of, loose_lines
from infra.cell.mind.memory_files import MemoryFiles, append_log, read_log
from infra.cell.mind.mind import MindContext
from infra.cell.mind.observe import Noted, observed
from infra.cell.mind.promote import Promotions, line_of, promote
from infra.cell.mind.promoted import PROMOTIONS, PromotionLine, PromotionLog
from infra.cell.mind.reflections import tell_failure
from infra.cell.mind.statements import key_of
from infra.cell.mind.summaries import (
    EmptySummary,
    PlacedEvent,
    Tally,
    daily_summary,
    tally,
    weekly_summary,
    words_of_learnt,
)
from infra.shared.clock import timestamp
from infra.shared.mind.event import MindEvent, logged, logged_on, name_of
from infra.shared.mind.layout import DAILY, HEALTH, WEEKLY, WORKING
from infra.shared.redacted_file import RedactedFile
from infra.shared.repository.git import GitError
from infra.shared.safe_files import Below

OBSERVED_DAYS: Final = 90
"""What was noted longer ago, and is not in memory, counts no more."""
MOST_WORKING: Final = 1 << 16
"""Bytes of working memory that are looked through."""
_OF_NOTES = (b'"note"', b'"shown"', b'"task_update"')
"""A line without these tells of nothing that was noted or shown, nor where a run begins and ends."""
_DAY_SECONDS = 86_400.0


class Pass(NamedTuple):
    """What one pass decided."""

    files: MemoryFiles
    log: PromotionLog
    noted: tuple[Noted, ...]
    learnt: Promotions


def after_run(context: MindContext) -> str:
    """What the notes of a run become at once, so that the next one knows it. A run that has read the web changes no
    memory: the next that has not does. Gives what came of it. Raises OSError, Interrupted."""
    if waits := _waits(context):
        return waits
    decided = _decide(context)
    today = timestamp(context.now())[:10]
    keys = {each.key for each in decided.noted if each.observation.at.startswith(today)}
    return f"{words_of_learnt(decided.learnt.about(keys))} {_apply(context, decided)}".strip()


def make_daily(context: MindContext, day: str) -> str:
    """The summary of a UTC day, and then what was noted until now into memory. Gives what came of it.

    Raises EmptySummary, OSError: then memory is as it was."""
    root, lines = context.places.mind, [*logged_on(Below(context.places.events), name_of(day))]
    events = [PlacedEvent(line.place, line.event) for line in lines if line.event]
    decided = _decide(context)
    of_day = [each for each in decided.noted if each.observation.at.startswith(day)]
    learnt = decided.learnt.about({each.key for each in of_day})
    statements = decided.files.statements()
    promoted = [line for line in decided.log.lines if line.what in PROMOTIONS and line.at.startswith(day)]
    made = [f"{line.id}: {statements.get(line.id, 'taken out since')}" for line in promoted]
    try:
        _write(root, f"{DAILY}/{day}.md", daily_summary(day, events, of_day, learnt, made, len(lines) - len(events)))
    except (EmptySummary, OSError) as error:
        _tell(context, f"Daily summary {day}", error)
        raise
    done = _waits(context) or _apply(context, decided)
    return " ".join(filter(None, (words_of_learnt(learnt, len(made)), done)))


def make_weekly(context: MindContext, week: str) -> str:
    """The summary of an ISO week and its look for contradictions. Gives what came of it.

    Raises EmptySummary, OSError: then memory is as it was."""
    root, now = context.places.mind, context.now()
    tallies = {day: _tally_of(context, day) for day in days_of(week)}
    files, log = MemoryFiles(root, now), read_log(root)
    every = [*((item.id, item.status) for item in files.items), *((each.id, each.status) for each in files.beliefs)]
    open_now = [id for id, status in every if status is BeliefStatus.CONTESTED]
    try:
        _write(root, f"{WEEKLY}/{week}.md", weekly_summary(week, tallies, log, files.statements(), open_now))
    except (EmptySummary, OSError) as error:
        _tell(context, f"Weekly summary {week}", error)
        raise
    if waits := _waits(context):
        return waits
    noted = observed(_notes(context), files.keys())
    found = make_coherent(files, log, validated_at(noted), context.ask, now)
    _save(root, files, found.lines)
    against = against_memory(held_of(files.items, files.beliefs), _loose(root, noted, tallies))
    _write(root, f"{HEALTH}/coherence-{week}.md", report(found, files, week, now, against))
    return f"{len(found.settled)} pairs judged, {found.left} left, {len(open_now)} contested before"


def _loose(root: str, noted: tuple[Noted, ...], days: Collection[str]) -> Iterator[Loose]:
    """What working memory says, and what was noted in these days; but not what a page may have said."""
    yield from loose_lines(WORKING, Below(root).tail(WORKING, MOST_WORKING).decode(errors="replace"))
    for each in noted:
        subject, statement, at, evidence = each.observation
        if at[:10] in days and each.origin is not Origin.PAGE:
            yield Loose(evidence.line, subject, statement)


def _waits(context: MindContext) -> str:
    """Why memory is not changed now; empty when it may be. The door would not take it, and what is told as promoted is
    never promoted again."""
    return "the run has read the web: what was noted waits for one that has not" if context.origins() else ""


def days_of(week: str) -> list[str]:
    """Of `2026-W05`, Monday first. Raises ValueError."""
    monday = datetime.date.fromisocalendar(int(week[:4]), int(week[6:]), 1)
    return [(monday + datetime.timedelta(days=number)).isoformat() for number in range(7)]


def validated_at(noted: tuple[Noted, ...]) -> dict[str, str]:
    """When a statement was validated last, by its key."""
    found = dict[str, str]()
    for each in noted:
        if each.validates:
            found[each.key] = max(found.get(each.key, ""), each.observation.at)
    return found


def _decide(context: MindContext) -> Pass:
    root, now = context.places.mind, context.now()
    files, log = MemoryFiles(root, now), read_log(root)
    noted = observed(_notes(context), files.keys())
    learnt = promote(noted, files.items, files.beliefs, context.thresholds, log, now, _head(context))
    return Pass(files, log, noted, learnt)


def _apply(context: MindContext, decided: Pass) -> str:
    """Into the files, and what is contested by it. Gives words about that; raises OSError, Interrupted."""
    files, _, noted, learnt = decided
    now, lines, new = context.now(), list[PromotionLine](), set[str]()
    for item in learnt.items:
        try:
            id = files.add_item(item)
        except ValueError as error:
            context.note("mind.not_promoted", subject=item.subject, error=str(error))
            continue
        new.add(id)
        lines.append(line_of("item", key_of(item.subject, item.statement), id, noted, now))
    for belief in learnt.beliefs:
        try:
            id = files.add_belief(belief)
        except ValueError as error:
            context.note("mind.not_promoted", subject=belief.subject, error=str(error))
            continue
        new.add(id)
        lines.append(line_of("belief", key_of(belief.subject, belief.claim), id, noted, now))
    for validation in learnt.validations:
        try:
            files.validate(validation)
        except (ValueError, KeyError) as error:
            context.note("mind.not_validated", id=validation.id, error=str(error))
            continue
        new.add(validation.id)
        lines.append(PromotionLine(timestamp(now), "validated", "", validation.id))
    _save(context.places.mind, files, tuple(lines))
    if not new:
        return ""
    log = decided.log.with_lines(lines)
    validated = validated_at(noted)
    found = make_coherent(files, log, validated, context.ask, now, new, MOST_JUDGED_AT_ONCE)
    _save(context.places.mind, files, found.lines)
    return _words_of(found)


def _words_of(found: Coherence) -> str:
    return "; ".join(f"{'/'.join(each.pair.ids)} {each.words}" for each in found.settled)


def _save(root: str, files: MemoryFiles, lines: tuple[PromotionLine, ...]) -> None:
    """The log comes second: an item that it does not tell of is found in its file."""
    files.save()
    append_log(root, lines)


def _notes(context: MindContext) -> list[tuple[str, MindEvent]]:
    """What was noted and shown, in the order of the log. Raises OSError."""
    since = timestamp(max(0.0, context.now() - OBSERVED_DAYS * _DAY_SECONDS))[:10]
    lines = logged(Below(context.places.events), since, lambda line: any(mark in line for mark in _OF_NOTES))
    found = [(line.place, line.event) for line in lines if line.event]
    return sorted(found, key=lambda each: each[1].seq)


def _tally_of(context: MindContext, day: str) -> Tally:
    lines = [*logged_on(Below(context.places.events), name_of(day))]
    events = [PlacedEvent(line.place, line.event) for line in lines if line.event]
    return tally(events, len(lines) - len(events))


def _write(root: str, path: str, text: str) -> None:
    os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
    RedactedFile(f"{root}/{path}").replace(text)


def _tell(context: MindContext, heading: str, error: Exception) -> None:
    context.note("mind.summary_failed", what=heading, error=str(error))
    text = f"{error}\n\nMemory was not changed in this pass; the events stay as they are."
    try:
        tell_failure(context.places.mind, heading, text)
    except OSError as full:
        context.note("mind.failure_not_told", error=str(full))


def _head(context: MindContext) -> str:
    try:
        return context.git("rev-parse", "HEAD")
    except GitError:
        return ""
