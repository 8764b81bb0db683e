"""The line protocol of the request socket."""

from __future__ import annotations

import json

import pytest

from infra.cell.report_requests import report_of
from infra.shared.requests import (
    MAX_BYTES,
    AgentReport,
    Ask,
    AskMind,
    Done,
    Examination,
    Examine,
    Later,
    MindState,
    NoteHead,
    QuestionState,
    Refused,
    Reply,
    Request,
    RequestError,
    encode_reply,
    encode_request,
    parse_reply,
    parse_request,
)
from tests.shared.rows import each_row

REPORT = AgentReport(
    "0" * 32, "2026-01-31T10:42:12.345Z", "a/b", "0123456789abcdef", "done: “it”", "line\nline", ("0011aabb",)
)


HEAD = NoteHead("2026-01-31T104212.345Z-0123abcd", 17, "f" * 64, 17)


@each_row(
    "request_",
    [REPORT, Ask("bash", {"command": "ls"}, "rule 1", "main", "a" * 40), Examine("x", "b" * 40), HEAD, AskMind()],
)
def test_a_request_survives_the_line(request_: Request) -> None:
    """What is encoded is parsed to the same value."""
    assert parse_request(encode_request(request_)) == request_


@each_row(
    "reply",
    [
        Done("a" * 40),
        QuestionState("0123456789abcdef", "denied", "no"),
        Examination("waiting"),
        Examination("examined", {"seconds": 1.5}),
        MindState(("boot/identity.md is not as the PM wrote it",), ()),
        Refused("why"),
        Later("busy"),
    ],
)
def test_a_reply_survives_the_line(reply: Reply) -> None:
    """What is encoded is parsed to the same value."""
    assert parse_reply(encode_reply(reply)) == reply


@each_row(
    "field, value",
    [
        ("do", "reports"),
        ("id", "0" * 31),
        ("at", "yesterday"),
        ("branch", "../x"),
        ("commit", "HEAD"),
        ("title", 7),
        ("text", None),
        ("ticks", ["all"]),
        ("ticks", "0011aabb"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    """A request with a field of another form is refused, and the words name what was wrong."""
    fields = json.loads(encode_request(REPORT)) | {field: value}
    with pytest.raises(RequestError, match=field if field != "branch" else "branch name"):
        parse_request(json.dumps(fields).encode())


@each_row("field, value", [("run", "../x"), ("seq", 0), ("seq", True), ("seq", "1"), ("hash", "f" * 63)])
def test_a_wrong_head_is_named(field: str, value: object) -> None:
    """The same of the head of a chain."""
    fields = json.loads(encode_request(HEAD)) | {field: value}
    with pytest.raises(RequestError, match=field):
        parse_request(json.dumps(fields).encode())


@each_row("line", [b"", b"[]", b"\xff", b"[" * 100_000, b"nothing"])
def test_what_is_no_object_is_refused(line: bytes) -> None:
    """Bytes of any kind raise nothing but RequestError."""
    with pytest.raises(RequestError):
        parse_request(line)


def test_a_request_has_a_greatest_size() -> None:
    """What would not fit the door's bound is refused before it is sent."""
    with pytest.raises(RequestError, match="bytes"):
        encode_request(REPORT._replace(text="x" * MAX_BYTES))


def test_a_heading_gives_branch_and_commit() -> None:
    """A heading in the form `branch@commit words` is taken apart; any other stands behind the sender's own version."""
    home = ("main", "f" * 40)
    found = report_of("0" * 32, REPORT.at, "a/b@0123456789ab done: x", "", (), home)
    assert (found.branch, found.commit, found.title) == ("a/b", "0123456789ab", "done: x")
    assert found.whole_title == "a/b@0123456789ab done: x"
    assert report_of("0" * 32, REPORT.at, "watcher: rolled back", "", (), home).whole_title == (
        "main@ffffffffffff watcher: rolled back"
    )
