"""Moments, command lines, the watcher's memory, the first words of reports, and what importing them costs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep import arguments
from infra.keep.watcher_file import BootRecord, Phase, Request, Runner, State, Trouble, decode, encode
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.paths import Paths
from infra.shared.text import first_line
from tests.shared.rows import each_row
from tests.shared.texts import any_text


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


TEXT = any_text(max_size=8)
NUMBERS = st.integers(0, 2**31)
RECORDS = st.builds(
    BootRecord, **dict.fromkeys(("boot_id", "branch", "commit", "reason", "started_at", "detail"), TEXT)
)
STATES = st.builds(
    State,
    phase=st.sampled_from(Phase),
    handled=TEXT,
    runner=st.none() | st.builds(Runner, boot_id=TEXT, branch=TEXT, commit=TEXT, pid=NUMBERS),
    failures=NUMBERS,
    request=st.none() | st.builds(Request, name=TEXT, target=TEXT, identity=TEXT),
    boots=st.lists(RECORDS, max_size=2).map(tuple),
    troubles=st.lists(st.builds(Trouble, at=TEXT, text=TEXT), max_size=2).map(tuple),
)


@given(STATES)
def test_the_watcher_remembers_what_it_knew(state: State) -> None:
    """Every field comes back; the file is plain JSON."""
    content = encode(state)
    assert json.loads(content)["phase"] == state.phase.value
    assert decode(content) == state


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
