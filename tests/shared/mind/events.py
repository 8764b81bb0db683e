"""Events for tests, and files of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import msgspec

from infra.shared.mind.event import (
    Command,
    EventContext,
    EventLine,
    EventMetadata,
    EventType,
    Execution,
    MindEvent,
    Outcomes,
    event_files,
    logged_on,
    name_of,
)
from infra.shared.safe_files import Below

DAY = "2026-01-31T10:42:12.345Z"
NOTHING = Execution()


def event_of(words: str = "", at: str = DAY, run: str = "run-1", step: str = "1.1", seq: int = 1) -> MindEvent:
    """One command that ended well."""
    return MindEvent(
        "skill_execution",
        EventContext("TASK-001", intent=words),
        Execution((Command("bash", ("-c", "true"), "/home/agent"),), (0,), 12),
        Outcomes(observations=words),
        EventMetadata(
            "scripted", 5800, origins=("example.org",), tool="bash", status="ok", details={"b": 1.5, "a": []}
        ),
        run,
        step,
        at,
        seq,
    )


def act(
    type: EventType, run: str = "", skill: str | None = None, did: Execution = NOTHING, seq: int = 0, **metadata: Any
) -> MindEvent:
    about, facts = EventContext(triggering_skill=skill), EventMetadata(**metadata)
    return MindEvent(type, about, did, Outcomes(), facts, run, timestamp=DAY, seq=seq)


def encoded(event: MindEvent) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def logged(directory: str) -> list[EventLine]:
    """All that stands there, in order."""
    return [line for name in event_files(Below(directory)) for line in logged_on(Below(directory), name)]


def write_events(directory: str, events: Iterable[MindEvent]) -> None:
    """Into the files of their days, as the keep has them."""
    os.makedirs(directory, exist_ok=True)
    for event in events:
        with open(f"{directory}/{name_of(event.timestamp)}", "ab") as file:
            file.write(encoded(event))
