"""The words of a command, against what bash makes of them."""

from __future__ import annotations

import subprocess
import time

from command_words import does_more_than_print, only_prints, tool_runs
from hypothesis import given
from hypothesis import strategies as st
from shell_line import Unclear
from shell_words import read_line

from tests.shared.rows import each_row
from tests.shared.texts import any_text

PIECES = [
    "a",
    "b c",
    "'q r'",
    '"d e"',
    "\\ ",
    "\\'",
    "$HOME",
    '"$HOME/x"',
    "~",
    "~/y",
    ";",
    "&&",
    "||",
    "|",
    " ",
    "\n",
    "#z",
]


@each_row(
    "text, values",
    [
        ("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("~/x $HOME/y \"${HOME}/z\" '~' '$HOME'", ["/home/agent/x", "/home/agent/y", "/home/agent/z", "~", "$HOME"]),
        ('a$x "$(b)" `c` $((1+2)) ${d}', [None] * 5),
        ("a 2>&1 >out <in &>>log", ["a"]),
        ("a # b", ["a"]),
        ("a\\\nb", ["ab"]),
        ('"a\\"b" "c\\d"', ['a"b', "c\\d"]),
    ],
)
def test_words_are_what_bash_makes_of_them(text: str, values: list[str | None]) -> None:
    """With the home directory filled in; None where only running it would tell."""
    [simple] = read_line(text).simples
    assert [word.value for word in simple.words] == values


@each_row(
    "text, joined",
    [
        ("a; b && c || d | e & f", ["", ";", "&&", "||", "|", "&"]),
        ("a &&\n b |\n c", ["", "&&", "|"]),
        ("for f in x y; do a $f; b; done | c", [";", ";", "|"]),
        ("if a; then b; else c; fi; d", ["", ";", ";", ";"]),
    ],
)
def test_simple_commands_tell_what_stands_before_them(text: str, joined: list[str]) -> None:
    """Also across the words of the shell."""
    assert [simple.joined for simple in read_line(text).simples] == joined


@each_row(
    "text",
    [
        *("a 'b", 'a "b', "a $(b", "a `b", "(a", "a)", "a << E", "f() { a; }", "case x in x) a;; esac", "((1))", "! a"),
        *("if a; then b", "done", "a ${b:-$(c)}", 'a $"b"', "x=(1 2)", "{ a; } > f", "[[ a", "a >| ", "coproc a"),
        "a" * 70_000,
    ],
)
def test_what_is_beyond_the_reader_is_unclear(text: str) -> None:
    """And so proves nothing."""
    try:
        read_line(text)
    except Unclear:
        return
    raise AssertionError(f"{text[:40]!r} was read")


@given(any_text())
def test_any_text_is_read_or_unclear(text: str) -> None:
    """Nothing else is raised, and what asks by the words gets an answer."""
    try:
        read_line(text)
    except Unclear:
        assert tool_runs(text, 0) == ()
    assert only_prints(text) in (True, False)
    assert does_more_than_print(text, "a") in (True, False)


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_words_agree_with_bash(pieces: list[str]) -> None:
    """A line of one simple command of known words has the words that bash hands to a program."""
    text = "p " + "".join(pieces)
    try:
        line = read_line(text)
    except Unclear:
        return
    if (
        len(line.simples) != 1
        or line.background
        or any(word.value is None or word.glob for word in line.simples[0].words)
    ):
        return
    program = f"p() {{ printf '%s\\0' p \"$@\"; }}\n{text}\n"
    said = subprocess.run(
        ["/bin/bash", "-c", program], capture_output=True, env={"HOME": "/home/agent", "PATH": "/none"}, timeout=10
    )
    if said.returncode == 0:
        assert said.stdout.decode().split("\0")[:-1] == [word.value for word in line.simples[0].words]


@each_row(
    "piece", ["$(", '"$(', "(", "{ ", "[[[[", "`", "a && ", "x | ", "tools/x;", "if ", "for f in a; do ", "'", "\\"]
)
def test_reading_takes_time_by_its_length_alone(piece: str) -> None:
    """Half a second of processor time for what is as long as it may be, however it is nested."""
    text = (piece * 65_536)[:65_000]
    began = time.process_time()
    tool_runs(text, 0)
    only_prints(text)
    assert time.process_time() - began < 2
