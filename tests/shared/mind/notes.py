"""Notes of runs as events, for tests of what is learnt from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infra.cell.mind.notes import NOTE, NoteDetails
from infra.shared.clock import timestamp
from infra.shared.mind.event import EventContext, EventMetadata, Execution, MindEvent, Outcomes, name_of
from infra.shared.mind.layout import EVENTS

DAY = 86_400.0
START = 1_767_571_200.0
"""Monday, 2026-01-05T00:00Z."""


class Said(NamedTuple):
    """One note of a run."""

    run: str
    statement: str
    subject: str = "port"
    how: str = "act"
    """act, check, failed, directive, page, recall."""
    at: float = START
    task: str = ""
    shown: tuple[str, ...] = ()


def events_of(said: Sequence[Said]) -> list[tuple[str, MindEvent]]:
    """In this order, each with its place."""
    return [(f"{EVENTS}/{name_of(timestamp(each.at))}:{seq}", event_of(each, seq)) for seq, each in enumerate(said, 1)]


def event_of(said: Said, seq: int) -> MindEvent:
    check = "test -e x" if said.how in ("check", "failed") else ""
    details = NoteDetails(
        said.subject,
        said.statement,
        check,
        {"check": 0, "failed": 1}.get(said.how),
        "as I say" if said.how == "directive" else "",
        said.how == "directive",
        "it was shown" if said.how == "recall" else "",
        1 if said.how == "check" else None,
    ).plain()
    metadata = EventMetadata(
        tool=NOTE,
        status="ok",
        origins=("a.example",) if said.how == "page" else (),
        details=details | ({"shown": list(said.shown)} if said.shown else {}),
    )
    context = EventContext(task_id=said.task or None)
    at = timestamp(said.at)
    return MindEvent("note", context, Execution(), Outcomes(), metadata, said.run, "1.1", at, seq)
