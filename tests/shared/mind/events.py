"""Events for tests, and chains of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from infra.cell.mind.event import (
    Command,
    EventContext,
    EventLine,
    EventMetadata,
    Execution,
    MindEvent,
    Outcomes,
    chained,
    each_event,
    encoded,
    path_of,
)

DAY = "2026-01-31T10:42:12.345Z"


def event_of(words: str = "", at: str = DAY, run: str = "run-1", step: str = "1.1") -> MindEvent:
    """One command that ended well."""
    return MindEvent(
        at,
        "skill_execution",
        EventContext("TASK-001", intent=words),
        Execution((Command("bash", ("-c", "true"), "/home/agent"),), (0,), 12),
        Outcomes(observations=words),
        EventMetadata(
            "scripted", 5800, origins=("example.org",), tool="bash", status="ok", details={"b": 1.5, "a": []}
        ),
        run,
        step,
    )


def chain_of(events: Iterable[MindEvent]) -> list[MindEvent]:
    made: list[MindEvent] = []
    for event in events:
        made.append(chained(event, made[-1] if made else None))
    return made


def files_of(events: Iterable[MindEvent]) -> dict[str, bytes]:
    """Their files, by the days of their timestamps."""
    files: dict[str, bytes] = {}
    for event in events:
        files[path_of(event.timestamp)] = files.get(path_of(event.timestamp), b"") + encoded(event)
    return files


def lines_in(files: dict[str, bytes]) -> list[EventLine]:
    return list(chain.from_iterable(each_event(files[path].split(b"\n"), path) for path in sorted(files)))
