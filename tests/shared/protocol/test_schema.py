"""The published schemas are those that the code gives."""

from __future__ import annotations

import json
from pathlib import Path

from infra.shared.protocol.guide import guide
from infra.shared.protocol.read import form
from infra.shared.protocol.schema import events_schema, operations_schema
from infra.shared.protocol.shapes import EVENTS, OPERATIONS

SPEC = Path(__file__).parents[3] / "spec/protocol"


def test_the_published_schemas_are_the_codes() -> None:
    """`minifram protocol schema` prints both."""
    assert json.loads((SPEC / "operations.schema.json").read_text()) == operations_schema()
    assert json.loads((SPEC / "events.schema.json").read_text()) == events_schema()


def test_six_and_six() -> None:
    """Fixed: whatever else is needed is done by code that runs."""
    assert list(OPERATIONS) == ["message", "createFile", "readFile", "editFile", "deleteFile", "shell"]
    assert set(EVENTS) == {"userMessage"} | set(OPERATIONS) - {"message"}


def test_the_guide_shows_each_operation() -> None:
    assert all(form(kind) in guide() for kind in OPERATIONS)
    assert len(guide()) < 4000, "it is part of every request"
