"""Literal text is replaced where it stands, or it is said why not. By the rows of the table of shapes seen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from infra.cell.tools.edits import edited, is_elided
from infra.cell.tools.tool import ToolError
from tests.shared.rows import each_row

REFUSED: tuple[tuple[int, str, dict[str, Any], str], ...] = (
    (79, "def f():\n    return 1\n", {"old": "def f():\n\treturn 1"}, "     1  def f():\n     2      return 1"),
    (79, "z\na\r\nb\r\n", {"old": "a\nb"}, "     2  a"),
    (80, "x\ny\nx\nx\n", {"old": "x"}, "occurs 3 times, in lines 1, 3, 4; expected 1"),
    (80, "x\n", {"old": "x", "count": 2}, "occurs 1 times, in lines 1; expected 2"),
    (81, "foo\nbar\n", {"old": "1 | foo\n2 | bar"}, "     1  foo"),
    (83, "a", {"old": "a", "new": "a"}, "equal"),
    (85, "a", {"old": "", "new": "a"}, "empty"),
    (88, "a\nb\n", {"old": "a", "new": "a\n...\nb"}, "leaves out"),
    (88, "a\nb\nc\n", {"old": "a\n...\nc"}, "     1  a\n     2  b\n     3  c"),
    (90, 'say "so" then\n', {"old": "say \u201cso\u201d then"}, "     1  say"),
    (90, "one\n", {"old": "two"}, "No line of the file is like its first"),
)


@each_row("row, content, edit, words", REFUSED)
def test_edits_that_are_asked_for_again(row: int, content: str, edit: dict[str, Any], words: str) -> None:
    """With what the file holds."""
    with pytest.raises(ToolError) as raised:
        edited(content.encode(), edit["old"], edit.get("new", "new"), edit.get("count", 1))
    assert words in str(raised.value)


TAKEN: tuple[tuple[int, str, dict[str, Any], str], ...] = (
    (84, "b\n", {"old": "a", "new": "b"}, "b\n"),
    (89, "&lt;a&gt; <b>", {"old": "&lt;a&gt;", "new": "<a> &amp;"}, "<a> &amp; <b>"),
    (93, "one\ntwo", {"old": "two\n", "new": "three\n"}, "one\nthree"),
    (93, "one\ntwo\n", {"old": "two", "new": "three"}, "one\nthree\n"),
    (94, "a a", {"old": "a", "new": "b", "count": 2}, "b b"),
    (16, "a\r\nb\r\n", {"old": "a\r\nb", "new": "c"}, "c\r\n"),
)


@each_row("row, content, edit, after", TAKEN)
def test_edits_that_are_made(row: int, content: str, edit: dict[str, Any], after: str) -> None:
    """One that is made already is told of."""
    made = edited(content.encode(), edit["old"], edit["new"], edit.get("count", 1))
    assert (made.content, "already holds" in made.warning) == (after.encode(), after == content)


def test_a_line_that_stands_for_others_is_noticed() -> None:
    """Row 49, and its control."""
    assert is_elided("def f():\n    # ... rest of the code unchanged\n")
    assert not is_elided("def f():\n    ...  # a stub of a protocol\n")


def test_an_edit_makes_no_file_without_measure() -> None:
    with pytest.raises(ToolError, match="would have 10000000000 bytes"):
        edited(b"a" * 100_000, "a", "b" * 100_000, 100_000)


@pytest.mark.heavy
def test_the_nearest_lines_are_found_in_bounded_time() -> None:
    """Also in a file of long lines."""
    content = "".join(f"{n:300}\n" for n in range(50_000)).encode()
    began = time.monotonic()
    with pytest.raises(ToolError, match="does not occur"):
        edited(content, "b" * 1000, "x", 1)
    assert time.monotonic() - began < 8
