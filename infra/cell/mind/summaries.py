"""Summaries of a day and of a week, from events alone: what was done, what failed, what was noted and what became of
it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from infra.shared.mind.event import EventLine
from infra.shared.text import counted, cut, one_line

MOST_LINES, MOST_WORDS = 60, 240


def summary(title: str, lines: Sequence[EventLine], noted: Sequence[str], memory: Sequence[str]) -> str:
    """`noted`: what was noted, and `memory`: what became of memory, in words."""
    tasks, runs, failures = dict[str, str](), set[str](), list[str]()
    for line in lines:
        event = line.event
        runs.update(filter(None, (event.run_id,)))
        if event.event_type == "error":
            words = event.outcomes.observations or event.context.intent or event.metadata.status
            if event.metadata.origins:
                words = f"{event.metadata.tool}: {event.metadata.status} (a run that had read the web)"
            failures.append(f"{cut(one_line(words), MOST_WORDS)} ({line.place})")
        if event.event_type == "task_update" and event.context.task_id:
            tasks[event.context.task_id] = one_line(event.metadata.status or event.outcomes.observations)[:60]
    parts = {
        "Tasks": [f"{id}: {state or 'touched'}" for id, state in tasks.items()],
        "Failures": failures,
        "Observations": noted,
        "Memory": [cut(each, MOST_WORDS) for each in memory],
    }
    head = f"{counted(len(lines), 'event')} of {counted(len(runs), 'run')}, {counted(len(failures), 'failure')}."
    return f"# {title}\n\n{head}\n" + "".join(_part(name, lines) for name, lines in parts.items() if lines)


def _part(title: str, lines: Sequence[str]) -> str:
    more = [f"and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
    return f"\n## {title}\n\n" + "".join(f"- {each}\n" for each in (*lines[:MOST_LINES], *more))
