"""Summaries of a day and of a week, from events alone: what was done, what failed, what was noted and what became of
it. Pure.

What a run noted that had read the web is counted and its place named, and its words are left out: a summary is placed
before later runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from infra.cell.mind.claims import Origin
from infra.cell.mind.observe import Noted
from infra.cell.mind.promote import Promotions
from infra.cell.mind.promoted import PROMOTIONS, PromotionLog
from infra.shared.mind.event import Command, MindEvent
from infra.shared.text import counted, cut, one_line

MOST_LINES: Final = 60
"""Of one part of a summary."""
MOST_WORDS: Final = 240
MOST_COMMANDS: Final = 12


class EmptySummary(ValueError):
    """There is something to tell of, and none of it can be told."""


class PlacedEvent(NamedTuple):
    place: str
    """`logs/events/2026-01-31.jsonl:17`."""
    event: MindEvent


class Tally(NamedTuple):
    """What a stretch of events comes to."""

    events: int
    runs: int
    tasks: Mapping[str, str]
    """Last known state of each."""
    failures: int
    commands: Mapping[str, tuple[int, int]]
    """By program: how often, and how often with another status than 0."""
    unreadable: int = 0


def tally(events: Iterable[PlacedEvent], unreadable: int = 0) -> Tally:
    tasks, counts, failed = dict[str, str](), Counter[str](), Counter[str]()
    runs, number, failures = set[str](), 0, 0
    for _, event in events:
        number += 1
        if event.run_id:
            runs.add(event.run_id)
        failures += event.event_type == "error"
        if event.event_type == "task_update" and event.context.task_id:
            tasks[event.context.task_id] = one_line(event.metadata.status or event.outcomes.observations)[:60]
        for at, command in enumerate(event.execution.commands):
            name = program_of(command)
            counts[name] += 1
            if at < len(event.execution.exit_codes):
                failed[name] += event.execution.exit_codes[at] != 0
    commands = {name: (times, failed[name]) for name, times in counts.most_common()}
    return Tally(number, len(runs), tasks, failures, commands, unreadable)


def program_of(command: Command) -> str:
    """Its name; of a script for bash, that of its first word."""
    words = (
        command.args[1].split() if command.cmd == "bash" and command.args[:1] == ("-c",) and command.args[1:] else []
    )
    return cut(one_line(words[0] if words else command.cmd).rpartition("/")[2] or "?", 40)


def daily_summary(
    day: str,
    events: Sequence[PlacedEvent],
    noted: Sequence[Noted],
    learnt: Promotions,
    made: Sequence[str] = (),
    unreadable: int = 0,
) -> str:
    """`noted` is of this day; `learnt` is what is promoted now, and `made` what was promoted on the day, in words;
    `unreadable`: lines of the day that are no events. Raises EmptySummary."""
    if unreadable and not events:
        raise EmptySummary(f"none of the {counted(unreadable, 'line')} of logs/events/{day}.jsonl can be read")
    found = tally(events, unreadable)
    parts = [
        f"# {day}\n\n{_counts(found)}\n",
        _part("Tasks", (f"- {id}: {state or 'touched'}" for id, state in found.tasks.items())),
        _part("Failures", (_failure(placed) for placed in events if placed.event.event_type == "error")),
        _part("Commands", _command_lines(found)),
        _part("Observations", _observations(noted, learnt)),
        f"## Memory\n\n{words_of_learnt(learnt, len(made))}\n\n" + "".join(_becoming(learnt, made)),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def words_of_learnt(learnt: Promotions, before: int = 0) -> str:
    """In one line. `before`: promoted on the same day before."""
    promoted = before + learnt.promoted
    words = f"Seen {counted(learnt.seen, 'statement')}, promoted {promoted}, refused {len(learnt.refused)}"
    return f"{words}, validated anew {len(learnt.validations)}." if learnt.validations else f"{words}."


def weekly_summary(
    week: str, days: Mapping[str, Tally], log: PromotionLog, statements: Mapping[str, str], open_now: Sequence[str]
) -> str:
    """`days`: by date; `statements`: of ids, in one line; `open_now`: what is contested. Raises EmptySummary."""
    if days and not any(each.events for each in days.values()) and any(each.unreadable for each in days.values()):
        raise EmptySummary(f"no event of {week} can be read")
    total = [sum(values) for values in zip(*((each.events, each.failures) for each in days.values()), strict=True)]
    events, failures = total or (0, 0)
    tasks = {id: state for each in days.values() for id, state in each.tasks.items()}
    made = [line for line in log.lines if line.at[:10] in days]
    promoted = [line for line in made if line.what in PROMOTIONS]
    changed = [line for line in made if line.what not in (*PROMOTIONS, "compatible")]
    head = f"# {week}\n\n{counted(events, 'event')}, {counted(len(tasks), 'task')}, {counted(failures, 'failure')}, "
    parts = [
        f"{head}{counted(len(promoted), 'promotion')}.\n",
        _part("Days", (f"- {day}: {_counts(each)}" for day, each in sorted(days.items()))),
        _part("Tasks", (f"- {id}: {state or 'touched'}" for id, state in tasks.items())),
        _part("Promoted", (f"- {line.id}: {cut(statements.get(line.id, 'gone'), MOST_WORDS)}" for line in promoted)),
        _part("Changed", (f"- {line.id}: {line.what}" for line in changed)),
        _part("Contested", (f"- {id}: {cut(statements.get(id, ''), MOST_WORDS)}" for id in open_now)),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _counts(found: Tally) -> str:
    if not found.events:
        return "Nothing happened."
    words = f"{counted(found.events, 'event')} of {counted(found.runs, 'run')}, {counted(found.failures, 'failure')}"
    return f"{words}; {counted(found.unreadable, 'line')} could not be read." if found.unreadable else f"{words}."


def _part(title: str, lines: Iterable[str]) -> str:
    """Nothing when there are none."""
    every = list(lines)
    shown = every[:MOST_LINES] + ([f"- and {len(every) - MOST_LINES:,} more"] if len(every) > MOST_LINES else [])
    return f"## {title}\n\n" + "\n".join(shown) + "\n" if shown else ""


def _failure(placed: PlacedEvent) -> str:
    place, event = placed
    words = one_line(event.outcomes.observations or event.context.intent or event.metadata.status)
    if event.metadata.origins:
        words = f"{event.metadata.tool}: {event.metadata.status} (a run that had read the web)"
    return f"- {cut(words, MOST_WORDS)} ({place})"


def _command_lines(found: Tally) -> Iterable[str]:
    for name, (times, failed) in list(found.commands.items())[:MOST_COMMANDS]:
        yield f"- {name}: {times:,}" + (f", {failed:,} with another status than 0" if failed else "")


def _observations(noted: Sequence[Noted], learnt: Promotions) -> Iterable[str]:
    why = {refusal.key: refusal.why for refusal in learnt.refused}
    for each in noted:
        subject, statement, _, evidence = each.observation
        if each.origin is Origin.PAGE:
            continue
        state = why.get(each.key, "in memory")
        yield f"- {subject}: {cut(statement, MOST_WORDS)} [{evidence.origin.value}; {state}; {evidence.line}]"
    pages = [each.observation.evidence.line for each in noted if each.origin is Origin.PAGE]
    if pages:
        yield f"- {counted(len(pages), 'statement')} of runs that had read the web, candidates: {', '.join(pages[:5])}"


def _becoming(learnt: Promotions, made: Sequence[str]) -> Iterable[str]:
    yield from (f"- {cut(words, MOST_WORDS)}\n" for words in made)
    yield from (f"- long-term: {item.subject}: {cut(item.statement, MOST_WORDS)}\n" for item in learnt.items)
    yield from (f"- belief: {belief.subject}: {cut(belief.claim, MOST_WORDS)}\n" for belief in learnt.beliefs)
    yield from (f"- validated anew: {each.id}\n" for each in learnt.validations)
