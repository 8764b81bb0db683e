"""Moments, command lines, the watcher's memory, the first words of reports, and characters that cannot be seen."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep import arguments
from infra.keep.watcher_file import State, Trouble, decode, encode
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.network import as_resolved
from infra.shared.paths import Paths
from infra.shared.text import first_line, is_visible, spelled, without_invisible
from tests.shared.rows import any_text, each_row


def test_moments_are_utc() -> None:
    """Known ones, and the turn of a second."""
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_769_856_132.345) == "2026-01-31T10:42:12.345Z"
    assert timestamp(59.9996) == "1970-01-01T00:01:00.000Z"


PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(PATHS, st.builds(Paths, PATHS, PATHS, PATHS, PATHS))
def test_a_command_line_carries_every_path(settings_path: str, places: Paths) -> None:
    """Also one that begins like an option, or is empty."""
    given = arguments.parser("program", "A program.").parse_args(arguments.words(settings_path, places))
    assert given.settings == settings_path
    assert arguments.places(given) == places


@pytest.mark.parametrize(
    "words", [[], ["--setting", "x"], ["--settings", "x", "--nest", "y"], ["--settings", "x", "y"]]
)
def test_a_command_line_that_is_not_understood_ends_with_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing, shortened, unknown and stray words are all the caller's mistake."""
    with pytest.raises(SystemExit) as left:
        arguments.parser("program", "A program.").parse_args(words)
    assert left.value.code == Exit.USAGE
    assert "usage: program" in capsys.readouterr().err


def test_words_that_are_no_text_do_not_stop_the_watcher() -> None:
    """A trouble may quote bytes of a strange file name; the rest is kept as it is."""
    state = State(handled="é", troubles=(Trouble(at="", text="cannot read 'a\udcff'"),))
    assert decode(encode(state)) == State(handled="é", troubles=(Trouble(at="", text="cannot read 'a?'"),))


@each_row(
    "content",
    [
        b"",
        b"\x00" * 100,
        b"null",
        b"[]",
        b"{",
        encode(State())[:-30],
        encode(State()).replace(b'"phase": "starting"', b'"phase": 3'),
        encode(State()).replace(b'"boots": []', b'"boots": [0]'),
        b'{"phase": "\xff"}',
        b'{"extra": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_watcher_state_is_a_value_error(content: bytes) -> None:
    """A damaged memory is told apart from an empty one; a whole one is read."""
    with pytest.raises(ValueError, match="not a watcher state"):
        decode(content)
    assert decode(b"{}") == State()


def test_what_a_newer_watcher_adds_does_not_disturb() -> None:
    """A field that this version does not know is passed over."""
    assert decode(b'{"handled": "1", "mood": "good"}') == State(handled="1")


@given(any_text(max_size=8).map(lambda text: text * 30))
def test_a_title_is_one_line_of_bounded_length(directive: str) -> None:
    """Whatever the directive holds, also when it is empty."""
    line = first_line(directive)
    assert len(line) <= 100
    assert len(line.splitlines()) <= 1


EVERY = "".join(map(chr, range(sys.maxunicode + 1)))


IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u17b4\u180b\u180f\u200b\u202e\u2060\u2065\u3164"
    "\ufe0f\uffa0\ufff0\U0001d173\U000e0001\U000e0fff"
)
"""One of each range that Unicode calls default ignorable."""


def test_no_character_that_shows_nothing_passes() -> None:
    """All controls, all that reorders or ends lines, and what Unicode calls ignorable."""
    unseen = (each for each in EVERY if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp"))
    hidden = "".join([*IGNORABLE, "\u2800", *unseen])
    shown = spelled(hidden)

    assert shown.isascii()
    assert shown.isprintable()
    assert without_invisible(hidden) == ""
    assert not any(is_visible(f"name{each}") for each in hidden)


@each_row("text", ["plain words", "ünï", "漢字", "عربي", "देवनागरी", "한국어", "é", "🙂", "→ …"])
def test_what_can_be_seen_stays(text: str) -> None:
    """Letters of all scripts, with their marks; symbols."""
    assert is_visible(text)
    assert spelled(text) == text == without_invisible(text)


def test_format_characters_with_a_shape_are_shown() -> None:
    """Signs before Arabic digits; a name cannot have them."""
    assert spelled("\u0600\u0661") == without_invisible("\u0600\u0661") == "\u0600\u0661"


def test_what_is_kept_stays() -> None:
    """In ASCII as elsewhere."""
    assert spelled("a\tb\nc\r", kept="\t\n") == "a\tb\nc\\r"
    assert spelled("ä\tb\nc\r", kept="\t\n") == "ä\tb\nc\\r"


def test_an_address_is_the_same_with_ignorable_characters_in_it() -> None:
    """As the programs see it that pass over them."""
    assert as_resolved("127.\u3164\u00ad0\ufe0f.0.1") == "127.0.0.1"
