"""Learning: what the notes of runs become in memory, by counts alone. After a run that noted something, and each
day and each week as duties; the model is asked once a week about pairs that may contradict each other.

A pass reads the events, decides, and then changes the files; done again, it changes nothing more. A summary that
cannot be written ends its pass before memory is touched; the events stay as they are."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from infra.cell.actions import OK, ToolCall
from infra.cell.cell import Cell
from infra.cell.mind import memory
from infra.cell.mind.coherence import make_coherent, report, without_gone
from infra.cell.mind.history import NoteTold, Promoted, converted, history_of
from infra.cell.mind.memory import PATHS, Fact, Facts, Kind, Source
from infra.cell.mind.mind import said_by, shell_in
from infra.cell.mind.notes import CHECK_SECONDS, NoteDetails, Origin, origin_of
from infra.cell.mind.record import tell
from infra.cell.mind.statements import key_of
from infra.shared.clock import timestamp
from infra.shared.mind.event import MindEvent, event_at, logged_on, name_of
from infra.shared.mind.layout import DAILY, HEALTH, WEEKLY
from infra.shared.safe_files import Below
from infra.shared.text import counted, cut, one_line

PROMOTIONS: Final = ("item", "belief")
ITEM_RUNS, BELIEF_RUNS = 2, 3
"""A statement that so many runs made by themselves becomes long-term memory (as does one validation), a belief."""
BELIEF_VALIDATIONS: Final = 2
"""Of different sources, make a belief."""
MOST_A_DAY: Final = 10
"""Statements that are promoted in one UTC day: what a PM can still read."""
MOST_EVIDENCE: Final = 8
"""Named in a fact: the first ones."""
MOST_CONFIDENCE: Final = 0.95
RECHECK_SECONDS, MOST_RECHECKED = 7 * 86_400.0, 5
"""A check that is remembered, and whose fact is placed, is run again after so long; so many in one pass."""
MOST_LINES, MOST_WORDS = 60, 240
"""Of a part of a summary, and characters of a line."""
replace = msgspec.structs.replace


class Noted(NamedTuple):
    """A statement of a run, and whose word it is."""

    key: str
    details: NoteDetails
    origin: Origin
    source: str
    """Two notes of one source are no independent evidence: those of one run, and what one directive says to each run
    that works on it."""
    event: MindEvent
    place: str
    """`logs/events/2026-01-31.jsonl:17`."""

    @property
    def validates(self) -> bool:
        return self.origin in ("check", "directive")


def _counting(noted: Sequence[Noted]) -> list[Noted]:
    """A page may have put its words into anybody's mouth: then only what is validated counts."""
    has_page = any(each.origin == "page" for each in noted)
    return [each for each in noted if each.validates or (each.origin == "act" and not has_page)]


def _weight(noted: Sequence[Noted]) -> tuple[int, int]:
    """Of how many sources it is validated, and of how many it counts at all: the larger is the better borne out."""
    counting = _counting(noted)
    return len({each.source for each in counting if each.validates}), len({each.source for each in counting})


def _becomes(noted: Sequence[Noted]) -> str:
    """The letter of its id; empty for nothing."""
    valid, independent = _weight(noted)
    rows = (
        ("B", valid, BELIEF_VALIDATIONS),
        ("B", independent, BELIEF_RUNS),
        ("L", valid, 1),
        ("L", independent, ITEM_RUNS),
    )
    return next((letter for letter, count, wanted in rows if count >= wanted), "")


def noted_in(notes: Collection[NoteTold], facts: Facts, said_by: Callable[[str], str]) -> tuple[Noted, ...]:
    """`said_by` gives the id of the directive or task that has these words."""
    found, ids = dict[tuple[str, str, str], Noted](), dict[str, set[str]]()
    for fact in facts.every:
        ids.setdefault(fact.key, {fact.key}).add(f"{PATHS[fact.id[0]]}#{fact.id}")
    for event, place, tainted, shown in notes:
        details = converted(event.metadata.details, NoteDetails)
        if details is None or details.failed or event.metadata.status not in ("", OK):
            continue
        key = key_of(details.subject, details.statement)
        said = said_by(details.quote) if details.quote and not tainted else ""
        origin = origin_of(details, tainted, not shown.isdisjoint(ids.get(key, {key})), said)
        source = said if origin == "directive" else event.run_id
        found.setdefault((event.run_id, key, origin), Noted(key, details, origin, source, event, place))
    return tuple(found.values())


def promote(
    noted: Sequence[Noted], facts: Facts, told: Sequence[tuple[str, Promoted]], now: float
) -> tuple[Facts, list[Promoted]]:
    """With what became of them. Pure; done again, it promotes nothing new. `told`: what learning did before, with its
    times."""
    facts, grouped, today, new = without_gone(facts), dict[str, list[Noted]](), timestamp(now)[:10], list[Promoted]()
    for each in noted:
        grouped.setdefault(each.key, []).append(each)
    room = MOST_A_DAY - sum(each.what in PROMOTIONS and at[:10] == today for at, each in told)
    # What the PM took out comes back by later notes alone.
    gone = {each.key: each.seq for _, each in told if each.what in PROMOTIONS and not facts.find(each.id)}
    # What is best borne out comes first, then what has waited longest.
    for key, every in sorted(grouped.items(), key=lambda each: (_weight(each[1]), -each[1][0].event.seq), reverse=True):
        held = [each for each in facts.every if each.key == key]
        validated_at = _validated_at(every)
        for fact in held:
            if validated_at > fact.last_validated:  # what still contradicts it is judged again
                status = "active" if fact.status == "contested" else fact.status
                again = replace(fact, last_validated=validated_at, status=status)
                facts = facts.with_fact(replace(again, status="contested") if fact.contradictions else again)
                new.append(Promoted("validated", key, fact.id))
        fresh = [each for each in every if each.event.seq > gone.get(key, 0)]
        letter, letters = _becomes(fresh), {each.id[0] for each in held}
        if letter and letters.isdisjoint({letter, "B"}) and room > 0:
            with contextlib.suppress(ValueError):  # what cannot be written is none
                fact = _fact(facts.next_id(letter, [each.id for _, each in told]), fresh, today)
                facts, room = facts.with_fact(fact), room - 1
                new.append(Promoted("belief" if letter == "B" else "item", key, fact.id, every[-1].event.seq))
    return facts, new


def _validated_at(noted: Sequence[Noted]) -> str:
    return max((each.event.timestamp for each in noted if each.validates), default="")


def _fact(id: str, noted: Sequence[Noted], today: str) -> Fact:
    """Raises ValueError."""
    counting, (valid, independent) = _counting(noted), _weight(noted)
    first, origins = counting[0].details, {each.origin for each in counting}
    kind: Kind = "observed" if "check" in origins else "external" if "directive" in origins else "inferred"
    # Validating ones first: they carry it.
    evidence = sorted(counting, key=lambda each: (not each.validates, each.event.seq))[:MOST_EVIDENCE]
    named = ((each, f"run {each.event.run_id} step {each.event.step_id}") for each in evidence)
    return Fact(
        id=id,
        claim=first.statement,
        subject=first.subject,
        confidence=round(min(MOST_CONFIDENCE, 0.4 + 0.1 * independent + 0.15 * valid), 2),
        type=kind,
        provenance=tuple(Source(f"event {each.place}", f"{each.origin}, {where}") for each, where in named),
        added=today,
        last_validated=_validated_at(noted),
    )


# In the files


def learn(cell: Cell, day: str = "") -> str:
    """The summary of a UTC day, if one is given and anything happened, and then what was noted until now into memory,
    so that the next run knows it. Gives what came of it. Raises OSError: then memory is as it was."""
    before, history = memory.read(cell.boot.places.mind), history_of(cell.boot.places.events)
    noted = noted_in(history.notes, before, said_by(cell))
    told = [(each.at, each.fact) for each in history.entries(Promoted)]
    after, new = promote(noted, before, told, cell.wall())
    if day:
        told += [(day, each) for each in new]
        _summarise(cell, f"{DAILY}/{day}.md", [day], noted, _in_words(told, [day], after))
    _save(cell, before, after, new)
    count = sum(each.what in PROMOTIONS for each in new)
    return f"promoted {count}, validated anew {len(new) - count}"


def make_weekly(cell: Cell, week: str) -> str:
    """The summary of an ISO week and its look for contradictions. Gives what came of it. Raises OSError, ModelFailure:
    then memory is as it was."""
    before, days, mind = memory.read(cell.boot.places.mind), days_of(week), cell.boot.places.mind
    told = [(each.at, each.fact) for each in history_of(cell.boot.places.events).entries(Promoted)]
    _summarise(cell, f"{WEEKLY}/{week}.md", days, (), _in_words(told, days, before))
    compatible = {each.key for _, each in told if each.what in ("compatible", "conditions")}
    found = make_coherent(before, compatible, cell.ask)
    _save(cell, before, found.facts, found.told)
    memory.write(mind, f"{HEALTH}/coherence-{week}.md", report(found, week, cell.wall()))
    return f"{len(found.settled)} pairs judged, {found.left} left"


def _summarise(cell: Cell, path: str, days: Sequence[str], noted: Sequence[Noted], learned: Sequence[str]) -> None:
    """What was done, what failed, what was noted and what became of it. Of what a run noted that had read the web
    nothing is there: a summary is placed before later runs."""
    lines = [line for day in days for line in logged_on(Below(cell.boot.places.events), name_of(day))]
    tasks, runs, failures = dict[str, str](), {line.event.run_id for line in lines} - {""}, list[str]()
    if not runs:
        return  # a duty alone is no news
    for event, place in ((line.event, line.place) for line in lines):
        if event.event_type == "error":
            words = event.outcomes.observations or event.context.intent or event.metadata.status
            if event.metadata.origins:
                words = f"{event.metadata.tool}: {event.metadata.status} (a run that had read the web)"
            failures.append(f"{cut(one_line(words), MOST_WORDS)} ({place})")
        if event.event_type == "task_update" and event.context.task_id:
            tasks[event.context.task_id] = one_line(event.metadata.status or event.outcomes.observations)[:60]
    parts = {
        "Tasks": [f"{id}: {state or 'touched'}" for id, state in tasks.items()],
        "Failures": failures,
        "Observations": [
            f"{each.details.subject}: {cut(each.details.statement, MOST_WORDS)} [{each.origin}; {each.place}]"
            for each in noted
            if each.event.timestamp[:10] in days and each.origin != "page"
        ],
        "Memory": [cut(each, MOST_WORDS) for each in learned],
    }
    title = os.path.basename(path).removesuffix(".md")
    text = f"# {title}\n\n{counted(len(lines), 'event')} of {counted(len(runs), 'run')}.\n"
    for name, items in ((name, items) for name, items in parts.items() if items):
        more = [f"and {len(items) - MOST_LINES:,} more"] if len(items) > MOST_LINES else []
        text += f"\n## {name}\n\n" + "".join(f"- {each}\n" for each in (*items[:MOST_LINES], *more))
    memory.write(cell.boot.places.mind, path, text)


def _in_words(told: Sequence[tuple[str, Promoted]], days: Sequence[str], facts: Facts) -> list[str]:
    """What learning did on these days."""
    claims = {each.id: f": {each.subject}: {each.claim}" for each in facts.every}
    found = (each for at, each in told if at[:10] in days and each.what != "compatible")
    return [f"{each.id}: {each.what}{claims.get(each.id, '')}" for each in found]


def recheck(cell: Cell) -> str:
    """Run again the checks that bear out what runs were shown of late and was validated over a week ago; what fails is
    contested. Gives what came of it. Raises OSError, Interrupted."""
    runs, since = history_of(cell.boot.places.events).runs.values(), timestamp(cell.wall() - RECHECK_SECONDS)
    shown = {id.rpartition("#")[2] for run in runs if run.began >= since for id in run.shown}
    before, told = memory.read(cell.boot.places.mind), list[Promoted]()
    facts, tools, at = before, shell_in(cell, cell.boot.places.main_checkout), timestamp(cell.wall())
    for fact in before.every:
        is_old = fact.id in shown and fact.status == "active" and fact.last_validated < since
        check = _check_of(cell, fact) if is_old and len(told) < MOST_RECHECKED else ""
        given = {"command": check, "timeout": CHECK_SECONDS}
        status = tools.call(ToolCall("", "bash", given)).facts.get("exit") if check else None
        if isinstance(status, int):  # else the policy does not let it, or it did not come to its end
            notes = f"{fact.notes}\nIts check ended with {status} on {at[:10]}.".strip()
            failed = replace(fact, status="contested", notes=notes)
            facts = facts.with_fact(failed if status else replace(fact, last_validated=at))
            told.append(Promoted("contested" if status else "validated", fact.key, fact.id))
    _save(cell, before, facts, told)
    which = ", ".join(each.id for each in told if each.what == "contested")
    return f"{counted(len(told), 'check')} run again, failed: {which or 'none'}"


def _check_of(cell: Cell, fact: Fact) -> str:
    """The command of the last check that is its evidence; empty for none. Raises OSError."""
    checks = [each.source for each in fact.provenance if each.evidence.startswith("check,")]
    found = (event_at(Below(cell.boot.places.events), place) for place in reversed(checks))
    for event in (event for event in found if event and not event.metadata.origins):
        note: NoteDetails | None = converted(event.metadata.details, NoteDetails)
        if note and note.checked and key_of(note.subject, note.statement) == fact.key:
            return note.check
    return ""


def _save(cell: Cell, before: Facts, after: Facts, told: Sequence[Promoted]) -> None:
    """The log comes second: a fact that it does not tell of is found in its file. Raises OSError."""
    memory.save(cell.boot.places.mind, before, after)
    if told:
        tell(cell, *told)


def days_of(week: str) -> list[str]:
    """Of `2026-W05`, Monday first. Raises ValueError."""
    monday = datetime.date.fromisocalendar(int(week[:4]), int(week[6:]), 1)
    return [(monday + datetime.timedelta(days=number)).isoformat() for number in range(7)]
