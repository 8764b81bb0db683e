"""A run as the lines of a transcript."""

from __future__ import annotations

import json
from typing import Any

from infra.cell.loop.loop import Event
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
    lines = [at | {"kind": kind} | facts for kind, facts in map(line_of, happenings)]
    return json.loads(json.dumps([opened(), *lines]))  # type: ignore[no-any-return]
