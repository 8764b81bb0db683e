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
from infra.shared.door import DoorRequest, Health
from infra.shared.requests import Ask, AskTaint, Examine, Record, Report, Tips
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


@each_row(
    "old, wrong",
    [
        ('["system"]', ["null", '"system"', "[3]"]),
        ('"role": "user"', ['"role": "system"', '"role": []']),
        ('"type": "text"', ['"type": "image"', '"type": {}']),
        ('"text": "Continue."', ['"text": 3', '"more": ""']),
        ('{"command": "ls"}', ["null", "[]"]),
        ('"id": "1", ', ['"id": 1, ', ""]),
        ('"is_error": true', ['"is_error": "false"']),
        ('{"type": "object"}', ["null", '"x"']),
        ('"run": "run"', ['"run": null']),
    ],
)
def test_a_request_of_another_shape_is_a_value_error(old: str, wrong: list[str]) -> None:
    """The door answers a stranger's request with a reason, whatever it sent."""
    whole = json.dumps(to_plain(REQUEST))
    assert convert(json.loads(whole), Request) == REQUEST
    assert old in whole
    for new in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            convert(json.loads(whole.replace(old, new, 1)), Request)


REPORT = Report("0" * 32, "a/b", "0123456789abcdef", "done: “it”", "line\nline", ("0011aabb",))
EVENTS = Record(({"event_type": "note"},))


def read(line: bytes) -> Any:
    return msgspec.json.decode(line, type=Requests)


@each_row(
    "request_, word",
    [
        (REPORT, "report"),
        (Ask("bash", {"command": "ls"}, "rule 1", "main", "a" * 40), "ask"),
        (Examine("x", "b" * 40), "examine"),
        (AskTaint(7), "taint"),
        (Tips("a" * 40), "tips"),
        (Health(), "health"),
        (EVENTS, "record"),
    ],
)
def test_a_request_survives_the_line(request_: DoorRequest, word: str) -> None:
    """What is encoded is read to the same value, and `do` says which it is."""
    line = msgspec.json.encode(request_)
    assert read(line) == request_
    assert json.loads(line)["do"] == word


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


@each_row("line", [b"", b"[]", b"\xff", b"[" * 100_000, b"nothing", b'{"do": "report"}'])
def test_what_is_no_request_is_refused(line: bytes) -> None:
    """Bytes of any kind raise nothing else."""
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError, RecursionError)):
        read(line)


def test_a_key_of_a_later_day_is_passed_over() -> None:
    assert read(msgspec.json.encode(REPORT)[:-1] + b',"at":"noon"}') == REPORT


def test_a_report_that_is_too_long_is_cut() -> None:
    long = request_of("main", "f" * 40, "rolled back", "x" * 20_000)
    assert long.whole_title == "main@ffffffffffff rolled back"
    assert long.text.endswith("is not in any report.")
    assert read(msgspec.json.encode(long)) == long
