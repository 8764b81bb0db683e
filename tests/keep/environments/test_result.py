"""The installer's output comes from the cell: any of it is read as one of two values."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.keep.environments.result import (
    ERROR_CHARS,
    LINE_CHARS,
    WORDS_LINES,
    Failed,
    Installed,
    InstallResult,
    clean,
    read_result,
    to_line,
)


@pytest.mark.parametrize(
    "answer", [Installed("/bot/.environments/x/bin/python", 1.5), Failed("why", "a\nb", True), Failed("", "", False)]
)
def test_what_is_said_is_read(answer: InstallResult) -> None:
    """The line comes back as the value it was, also after other lines."""
    code = 0 if isinstance(answer, Installed) else 1
    assert read_result(f"{to_line(answer)}\n".encode(), code) == answer
    assert read_result(f"noise\n{to_line(answer)}".encode(), code) == answer


def test_a_status_that_contradicts_counts() -> None:
    """Success is only what both the line and the status say; a killed installer is the machine's matter."""
    well = to_line(Installed("/x/bin/python", 1)).encode()
    failed = read_result(well, 1)
    assert isinstance(failed, Failed)
    assert "status 1 and reported success" in failed.error
    killed = read_result(b"", -9)
    assert isinstance(killed, Failed)
    assert killed.outage
    assert "signal 9" in killed.error


@pytest.mark.parametrize(
    "raw",
    [
        {"interpreter": "relative/python", "seconds": 1},
        {"interpreter": "/x\n/python", "seconds": 1},
        {"interpreter": "/x", "seconds": "1"},
        {"interpreter": "/x", "seconds": True},
        {"interpreter": "/x", "seconds": -1},
        {"interpreter": "/x", "seconds": float("nan")},
        {"interpreter": "/x", "seconds": float("inf")},
        {"interpreter": "/x"},
        {"interpreter": "/x", "seconds": 1, "more": 1},
        {"error": "e", "words": "w", "outage": 1},
        {"error": 1, "words": "w", "outage": True},
        [],
        None,
    ],
)
def test_an_ill_shaped_line_is_no_result(raw: object) -> None:
    """A key too many or too few, a value of another kind: it failed, and not by an outage."""
    failed = read_result(json.dumps(raw).encode(), 0)
    assert isinstance(failed, Failed)
    assert "reported no result" in failed.error
    assert not failed.outage


json_values = st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner))


@given(
    st.binary()
    | st.dictionaries(st.sampled_from(["interpreter", "seconds", "error", "words", "outage"]), json_values).map(
        lambda raw: json.dumps(raw).encode()
    ),
    st.integers(-70, 255),
)
@example(b"[" * 60_000, 0)
@example(json.dumps({"error": "e" * 9999, "words": "\x1b[31mw\x07\n" * 999, "outage": True}).encode(), 1)
@example(b'{"interpreter": "/x", "seconds": 1e999}', 0)
@example(b'{"interpreter": "/x", "seconds": ' + b"9" * 5000 + b"}", 0)
def test_anything_is_read_as_one_of_two(stdout: bytes, returncode: int) -> None:
    """It never raises; what comes out is bounded and holds nothing that a terminal obeys."""
    got = read_result(stdout, returncode)
    if isinstance(got, Installed):
        assert returncode == 0
        assert got.interpreter.startswith("/")
        return
    assert len(got.error) <= ERROR_CHARS
    assert got.error.isprintable()
    words = got.words.split("\n")
    assert len(words) <= WORDS_LINES
    assert all(len(line) <= LINE_CHARS and line.isprintable() for line in words)


def test_the_last_words_are_the_last() -> None:
    """Of many lines the end stays, of long ones the beginning."""
    text = "\n".join(f"line {number}" for number in range(100)) + "\n" + "x" * 1000
    lines = clean(text).split("\n")
    assert lines[0] == f"line {100 - WORDS_LINES + 1}"
    assert lines[-1] == "x" * (LINE_CHARS - 1) + "…"
