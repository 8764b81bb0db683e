"""Learning: what the notes of runs become in memory, by thresholds alone. After a run that noted something, and each
day and each week as duties; the model is asked about pairs that may contradict each other, and about nothing else.

A pass reads the events, decides, and then changes the files; done again, it changes nothing more. A summary that
cannot be written ends its pass before memory is touched; the events stay as they are."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from infra.cell.actions import ToolCall
from infra.cell.mind import memory
from infra.cell.mind.coherence import MOST_JUDGED_AT_ONCE, make_coherent, report
from infra.cell.mind.history import History, Promoted, history_of
from infra.cell.mind.memory import Fact, Facts
from infra.cell.mind.mind import MindContext
from infra.cell.mind.notes import CHECK_SECONDS, details_of
from infra.cell.mind.promote import PROMOTIONS, Learnt, Noted, noted_in, promote
from infra.cell.mind.record import tell
from infra.cell.mind.statements import key_of
from infra.cell.mind.summaries import summary
from infra.shared.clock import timestamp
from infra.shared.mind.event import EventLine, event_at, logged_on, name_of
from infra.shared.mind.layout import DAILY, FAILURES, HEALTH, WEEKLY
from infra.shared.safe_files import Below
from infra.shared.text import counted

RECHECK_SECONDS, MOST_RECHECKED = 7 * 86_400.0, 5
"""A check that is remembered, and whose fact is placed, is run again after so long; so many in one pass."""
replace = msgspec.structs.replace


class _Pass(NamedTuple):
    """What one pass begins with, and what it makes of the notes."""

    before: Facts
    history: History
    noted: tuple[Noted, ...]
    told: tuple[tuple[str, Promoted], ...]
    learnt: Learnt


def _begun(context: MindContext) -> _Pass:
    """Raises OSError."""
    facts, history = memory.read(context.places.mind, context.now()), history_of(context.places.events)
    noted = noted_in(history.notes, facts, context.said_by())
    told = tuple((each.at, each.fact) for each in history.entries(Promoted))
    learnt = promote(noted, facts, told, context.thresholds, context.now())
    return _Pass(facts, history, noted, told, learnt)


def after_run(context: MindContext) -> str:
    """What the notes of a run become at once, so that the next one knows it. A run that has read the web changes no
    memory: the next that has not does. Gives what came of it. Raises OSError, Interrupted."""
    return _waits(context) or _apply(context, _begun(context))


def make_daily(context: MindContext, day: str) -> str:
    """The summary of a UTC day, if anything happened, and then what was noted until now into memory. Gives what came of
    it. Raises OSError: then memory is as it was."""
    begun = _begun(context)
    noted, lines = [each for each in begun.noted if each.at.startswith(day)], _events_of(context, [day])
    becoming = _became([*_told_on(begun, [day]), *begun.learnt.told], begun.learnt.facts)
    if any(line.event.run_id for line in lines):  # a duty alone is no news
        _write(context, f"{DAILY}/{day}.md", lambda: summary(day, lines, noted, begun.learnt.refused, becoming))
    return _waits(context) or _apply(context, begun)


def make_weekly(context: MindContext, week: str) -> str:
    """The summary of an ISO week and its look for contradictions. Gives what came of it. Raises OSError: then
    memory is as it was."""
    begun, days = _begun(context), days_of(week)
    becoming = _became(_told_on(begun, days), begun.before)
    becoming += [f"contested: {each.id}: {each.claim}" for each in begun.before.every if each.status == "contested"]
    events = _events_of(context, days)
    _write(context, f"{WEEKLY}/{week}.md", lambda: summary(week, events, (), {}, becoming))
    if waits := _waits(context):
        return waits
    found = make_coherent(begun.before, _compatible(begun.told), context.ask)
    _save(context, begun.before, found.facts, found.told)
    _write(context, f"{HEALTH}/coherence-{week}.md", lambda: report(found, week, context.now()))
    return f"{len(found.settled)} pairs judged, {found.left} left"


def _events_of(context: MindContext, days: Sequence[str]) -> list[EventLine]:
    return [line for day in days for line in logged_on(Below(context.places.events), name_of(day))]


def _told_on(begun: _Pass, days: Sequence[str]) -> list[Promoted]:
    return [each for at, each in begun.told if at[:10] in days]


def _became(told: Sequence[Promoted], facts: Facts) -> list[str]:
    """In words."""
    claims = {each.id: f"{each.id}: {each.subject}: {each.claim}" for each in facts.every}
    return [
        claims.get(each.id, f"{each.id}: taken out since") if each.what in PROMOTIONS else f"{each.id}: {each.what}"
        for each in told
        if each.what != "compatible"
    ]


def recheck(context: MindContext) -> str:
    """Run again the checks that bear out what runs were shown of late and was validated over a week ago; what fails is
    contested. Gives what came of it. Raises OSError, Interrupted."""
    waits = _waits(context)
    if waits or context.toolbox_in is None:
        return waits
    begun, since = _begun(context), timestamp(max(0.0, context.now() - RECHECK_SECONDS))
    shown = {id.rpartition("#")[2] for run in begun.history.runs.values() if run.began >= since for id in run.shown}
    facts, told, tools = begun.before, list[Promoted](), context.toolbox_in(context.places.main_checkout)
    for fact in begun.before.every:
        is_old = fact.id in shown and fact.status == "active" and fact.last_validated < since
        check = _check_of(context, fact) if is_old and len(told) < MOST_RECHECKED else ""
        if not check:
            continue
        status = tools.call(ToolCall("", "bash", {"command": check, "timeout": CHECK_SECONDS})).facts.get("exit")
        at = timestamp(context.now())
        if status == 0:
            facts = facts.with_fact(replace(fact, last_validated=at))
        elif isinstance(status, int):
            notes = f"{fact.notes}\nIts check ended with {status} on {at[:10]}.".strip()
            facts = facts.with_fact(replace(fact, status="contested", notes=notes))
        else:
            continue  # the policy does not let it, or it did not come to its end
        told.append(Promoted("contested" if status else "validated", fact.key, fact.id))
    _save(context, begun.before, facts, told)
    failed = ", ".join(each.id for each in told if each.what == "contested")
    return f"{counted(len(told), 'check')} run again, failed: {failed or 'none'}"


def _check_of(context: MindContext, fact: Fact) -> str:
    """The command of the last check that is its evidence; empty for none. Raises OSError."""
    for source in reversed(fact.provenance):
        event = event_at(Below(context.places.events), source.source) if source.evidence.startswith("check,") else None
        details = details_of(event.metadata.details) if event and not event.metadata.origins else None
        if details and details.checked and key_of(details.subject, details.statement) == fact.key:
            return details.check
    return ""


def _apply(context: MindContext, begun: _Pass) -> str:
    """Into the files, and what is contested by it. Gives words about that; raises OSError, Interrupted."""
    learnt = begun.learnt
    _save(context, begun.before, learnt.facts, learnt.told)
    new = {each.id for each in learnt.told}
    found = make_coherent(learnt.facts, _compatible(begun.told), context.ask, new, MOST_JUDGED_AT_ONCE)
    _save(context, learnt.facts, found.facts, found.told)
    count = sum(each.what in PROMOTIONS for each in learnt.told)
    words = [f"{pair[0].id}/{pair[1].id} {words}" for pair, _, words in found.settled]
    return "; ".join((f"promoted {count}, validated anew {len(learnt.told) - count}", *words))


def _compatible(told: Sequence[tuple[str, Promoted]]) -> frozenset[str]:
    """Pairs that were judged to be no contradiction."""
    return frozenset(each.key for _, each in told if each.what == "compatible")


def _waits(context: MindContext) -> str:
    """Why memory is not changed now; empty when it may be. The door would not take it, and what is told as promoted is
    never promoted again."""
    return "the run has read the web: what was noted waits for one that has not" if context.origins() else ""


def _save(context: MindContext, before: Facts, after: Facts, told: Sequence[Promoted]) -> None:
    """The log comes second: a fact that it does not tell of is found in its file. Raises OSError."""
    memory.save(context.places.mind, before, after)
    if told:
        tell(context, *told)


def _write(context: MindContext, path: str, text: Callable[[], str]) -> None:
    """Raises OSError, and tells of it."""
    try:
        memory.write(context.places.mind, path, text())
    except OSError as error:
        context.note("mind.summary_failed", what=path, error=str(error))
        words = f"{error}\n\nMemory was not changed in this pass; the events stay as they are."
        memory.tell_of(context.places.mind, FAILURES, f"Summary {path}", words)
        raise


def days_of(week: str) -> list[str]:
    """Of `2026-W05`, Monday first. Raises ValueError."""
    monday = datetime.date.fromisocalendar(int(week[:4]), int(week[6:]), 1)
    return [(monday + datetime.timedelta(days=number)).isoformat() for number in range(7)]
