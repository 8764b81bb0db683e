"""Notes of runs as events, for tests of what is learnt from them; and facts as the mind's files hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from infra.cell.actions import NOTE
from infra.cell.mind.history import History
from infra.cell.mind.notes import NoteDetails
from infra.cell.mind.statements import key_of
from infra.shared.clock import timestamp
from infra.shared.mind.event import EventContext, EventLine, EventMetadata, Execution, MindEvent, Outcomes, name_of

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


def history_of(said: Sequence[Said]) -> History:
    """Of events in this order."""
    history = History()
    for seq, each in enumerate(said, 1):
        history.add(EventLine(name_of(timestamp(each.at)), seq, event_of(each, seq)))
    return history


def event_of(said: Said, seq: int) -> MindEvent:
    check = f"grep -q '{said.statement}' x" if said.how in ("check", "failed") else ""
    details = NoteDetails(
        said.subject,
        said.statement,
        check,
        f"I say {said.task or 'so'}" if said.how == "directive" else "",
        {"check": 0, "failed": 1}.get(said.how),
    )
    shown = (key_of(said.subject, said.statement),) if said.how == "recall" else said.shown
    metadata = EventMetadata(
        tool=NOTE,
        status="ok",
        origins=("a.example",) if said.how == "page" else (),
        details=msgspec.to_builtins(details) | ({"shown": list(shown)} if shown else {}),
    )
    context = EventContext(task_id=said.task or None)
    at = timestamp(said.at)
    return MindEvent("note", context, Execution(), Outcomes(), metadata, said.run, "1.1", at, seq)


def belief(
    id: str, claim: str, subject: str = "", status: str = "active", validated: str = "", against: str = ""
) -> str:
    return (
        f"## {id}\nClaim: {claim}\n{f'Subject: {subject}{chr(10)}' if subject else ''}Confidence: 0.9\n"
        f"Status: {status}\nType: observed\nProvenance:\n  - Source: event logs/events/2026-01-01.jsonl:3\n"
        f"    Evidence: seen\nLast_validated: {validated}\nContradictions:\n  - {against or 'None'}\n\n"
    )


def item(id: str, subject: str, statement: str, validated: str = "", added: str = "2026-01-01") -> str:
    return f"## {id}\nClaim: {statement}\nSubject: {subject}\nAdded: {added}\nLast_validated: {validated}\n\n"
