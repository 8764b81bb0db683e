"""What runner, model door and git door say to each other: it survives the wire, and nothing else passes for it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import convert

from infra.cell.page import request_of
from infra.keep.git_door.app import Requests
from infra.shared.conversation import (
    MOST_TOKENS,
    Completion,
    Message,
    Request,
    Text,
    ToolResult,
    ToolSpec,
    ToolUse,
    Usage,
    to_plain,
)
from infra.shared.door import DoorRequest
from infra.shared.requests import Record, Report
from tests.shared.rows import each_row

REQUEST = Request(
    ("system",),
    (
        Message("user", (Text("Continue."),)),
        Message("assistant", (Text("I look."), ToolUse("1", "bash", {"command": "ls"}))),
        Message("user", (ToolResult("1", "a b", True),)),
    ),
    (ToolSpec("bash", "Run a command", {"type": "object"}),),
    "run",
)
COMPLETION = Completion(
    (Text("Done."), ToolUse("2", "bash", {"a": [None, True, 1.5, {"b": "\ud800"}]})),
    "tool_use",
    "a-model",
    Usage(1, 2, 3, MOST_TOKENS),
    0.25,
)


@each_row("value", [REQUEST, COMPLETION])
def test_what_is_said_comes_through_the_wire(value: Request | Completion) -> None:
    """As JSON and back it is the same value, half surrogates and all."""
    assert convert(json.loads(json.dumps(to_plain(value))), type(value)) == value


REPORT = Report("0" * 32, "a/b", "0123456789abcdef", "done: “it”", "line\nline", ("0011aabb",))
EVENTS = Record(({"event_type": "note"},))


def read(line: bytes) -> Any:
    return msgspec.json.decode(line, type=Requests)


@each_row(
    "of, field, value",
    [
        (REPORT, "do", "reports"),
        (REPORT, "id", "0" * 31),
        (REPORT, "id", "0" * 32 + "\n"),
        (REPORT, "branch", ""),
        (REPORT, "commit", "HEAD"),
        (EVENTS, "events", [7]),
        (EVENTS, "events", [{}] * 201),
        (REPORT, "title", 7),
        (REPORT, "title", "x" * 501),
        (REPORT, "text", None),
        (REPORT, "text", "x" * 16_001),
        (REPORT, "ticks", ["all"]),
        (REPORT, "ticks", "0011aabb"),
        (REPORT, "tasks", ["TASK-1\n"]),
    ],
)
def test_a_wrong_field_is_named(of: DoorRequest, field: str, value: object) -> None:
    """A request with a field of another form is refused, and the words name what was wrong."""
    fields = json.loads(msgspec.json.encode(of)) | {field: value}
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field}"):
        read(json.dumps(fields).encode())


def test_a_report_that_is_too_long_is_cut() -> None:
    long = request_of("main", "f" * 40, "rolled back", "x" * 20_000)
    assert long.whole_title == "main@ffffffffffff rolled back"
    assert long.text.endswith("is not in any report.")
    assert read(msgspec.json.encode(long)) == long
