"""What reaches the PM's screen."""

from __future__ import annotations

import io
import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.screen import Screen, Shown, as_json, duration, good, harmless, one_line, plain, seconds_of, since
from infra.shared.clock import timestamp


@given(st.text())
def test_no_text_can_steer_a_terminal(text: str) -> None:
    """After it was made harmless, a text holds no control character but tab and newline."""
    shown = harmless(text)
    assert all(char in "\t\n" or ord(char) >= 32 for char in shown)
    assert not any(0x7F <= ord(char) < 0xA0 for char in shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 漢字", "plain ünïcode 漢字"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb", "a\\rb"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("a\u200bb", "a\\u200bb"),
        ("\x9b2J", "\\x9b2J"),
    ],
)
def test_what_would_hide_or_steer_is_spelled_out(text: str, shown: str) -> None:
    """Colours are dropped, everything else that does something is shown as what it is."""
    assert harmless(text) == shown


def test_one_line_is_cut_and_says_so() -> None:
    """Only the first line is shown, with a mark where it was cut."""
    assert one_line("first\nsecond") == "first"
    assert one_line("x" * 30, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (3.9, "3 s"),
        (61, "1 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86400, "1 d"),
        (100_000, "1 d 3 h"),
    ],
)
def test_durations_are_for_people(seconds: float, words: str) -> None:
    """Two units at most."""
    assert duration(seconds) == words


@given(st.floats(min_value=0, max_value=4e9))
def test_times_as_we_write_them_are_read_back(moment: float) -> None:
    """To the millisecond."""
    read = seconds_of(timestamp(moment))
    assert read is not None
    assert abs(read - moment) < 0.0011


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-31", "2026-01-31T10:42:12", "2026-13-31T10:42:12Z"])
def test_what_is_no_time_is_none(text: str) -> None:
    """A time that the agent made up shows as nothing."""
    assert seconds_of(text) is None
    assert since(text, 1e9) == ""


class _Pair(NamedTuple):
    name: str
    inner: tuple[int, ...]


def test_values_become_json_that_any_reader_takes() -> None:
    """Named tuples are objects, and bytes that were no UTF-8 do not break the text."""
    assert plain(_Pair("a", (1, 2))) == {"name": "a", "inner": [1, 2]}
    text = as_json("x", {"path": "caf\udce9", "n": None})
    assert json.loads(text) == {"schema": "minifram.x/1", "path": "caf\ufffd", "n": None}
    assert text.isascii()


@pytest.mark.attack("S27")
def test_nothing_that_is_printed_steers_a_terminal() -> None:
    """The net under all that is made harmless before: colours are left in where there are any, and nothing else."""
    for colour in (True, False):
        screen = Screen(io.StringIO(), io.StringIO(), colour)
        text = f"{good('fine')} \x1b]0;owned\x07\u202e\x9b1m\x1b[5m\tkept\nkept"
        screen.print(Shown(None, text))
        screen.progress(text)
        for stream in (screen.out, screen.err):
            assert isinstance(stream, io.StringIO)
            shown = stream.getvalue()
            assert shown.startswith("\x1b[32mfine\x1b[0m" if colour else "fine")
            assert harmless(shown) == shown.replace("\x1b[32m", "").replace("\x1b[0m", "")
            assert "\\x1b]0;owned\\x07\\u202e\\x9b1m" in shown
            assert shown.endswith("\tkept\nkept\n")
