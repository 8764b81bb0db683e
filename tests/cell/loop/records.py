"""A run as the lines of a transcript."""

from __future__ import annotations

import json
from typing import Any

from infra.cell.loop.loop import Entered, Event
from infra.cell.runner.transcript import line_of
from infra.shared.conversation import Message, Request, Text, to_plain

OPENING = Request(("You are.",), (Message("user", (Text("Continue."),)),), (), "run-1")
MOST_STEPS = 30


def opened() -> dict[str, Any]:
    line = {"at": "2026-01-31T10:00:00.000Z", "kind": "opened", "run_id": "run-1", "most_steps": MOST_STEPS}
    return line | to_plain(OPENING)


def as_lines(happenings: list[Event]) -> list[dict[str, Any]]:
    """As a transcript has them."""
    at = {"at": "2026-01-31T10:00:01.000Z", "run_id": "run-1"}
    lines, states = [opened()], list[str]()
    for event in happenings:
        if isinstance(event, Entered):
            states.append(event.state.value)
            continue
        kind, facts = line_of(event)
        lines.append(at | {"kind": kind, "states": states} | facts)
        states = []
    return json.loads(json.dumps(lines))  # type: ignore[no-any-return]
