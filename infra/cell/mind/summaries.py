"""Summaries of a day and of a week, from events alone: what was done, what failed, what was noted and what became of
it. Pure.

What a run noted that had read the web is counted and its place named, and its words are left out: a summary is placed
before later runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infra.cell.mind.promote import Noted
from infra.shared.mind.event import EventLine
from infra.shared.text import counted, cut, one_line

MOST_LINES, MOST_WORDS = 60, 240


def summary(
    title: str, lines: Sequence[EventLine], noted: Sequence[Noted], refused: Mapping[str, str], memory: Sequence[str]
) -> str:
    """`noted`: what is told of with what became of it; `refused`: why a statement, by its key, is no memory; `memory`:
    what became of memory, in words."""
    tasks, runs, failures = dict[str, str](), set[str](), list[str]()
    for line in lines:
        event = line.event
        runs.update(filter(None, (event.run_id,)))
        if event.event_type == "error":
            words = event.outcomes.observations or event.context.intent or event.metadata.status
            if event.metadata.origins:
                words = f"{event.metadata.tool}: {event.metadata.status} (a run that had read the web)"
            failures.append(f"- {cut(one_line(words), MOST_WORDS)} ({line.place})")
        if event.event_type == "task_update" and event.context.task_id:
            tasks[event.context.task_id] = one_line(event.metadata.status or event.outcomes.observations)[:60]
    observed = [
        f"- {each.subject}: {cut(each.statement, MOST_WORDS)} "
        f"[{each.origin}; {refused.get(each.key, 'in memory')}; {each.place}]"
        for each in noted
        if each.origin != "page"
    ]
    if pages := [each.place for each in noted if each.origin == "page"]:
        words = f"{counted(len(pages), 'statement')} of runs that had read the web, candidates"
        observed.append(f"- {words}: {', '.join(pages[:5])}")
    parts = {
        "Tasks": [f"- {id}: {state or 'touched'}" for id, state in tasks.items()],
        "Failures": failures,
        "Observations": observed,
        "Memory": [f"- {cut(each, MOST_WORDS)}" for each in memory],
    }
    head = f"{counted(len(lines), 'event')} of {counted(len(runs), 'run')}, {counted(len(failures), 'failure')}."
    return f"# {title}\n\n{head}\n" + "".join(_part(name, lines) for name, lines in parts.items() if lines)


def _part(title: str, lines: Sequence[str]) -> str:
    more = [f"- and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
    return f"\n## {title}\n\n" + "\n".join((*lines[:MOST_LINES], *more)) + "\n"
