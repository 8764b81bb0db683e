"""Literal text is replaced where it stands, or it is said why not. By the rows of the table of shapes seen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from infra.cell.tools.files import edited
from infra.cell.tools.tool import ToolError
from tests.shared.rows import each_row

REFUSED: tuple[tuple[int, str, dict[str, Any], str], ...] = (
    (79, "z\ndef f():\n    return 1\n", {"old": "def  f():\n\treturn 1"}, ". The nearest line is 2: def f():"),
    (80, "x\ny\nx\nx\n", {"old": "x"}, "old occurs 3 times; expected 1"),
    (80, "x\n", {"old": "x", "count": 2}, "old occurs 1 times; expected 2"),
    (81, "foo bar\nbaz\n", {"old": "1 | foo bar\n2 | baz"}, ". The nearest line is 1: foo bar"),
    (83, "a", {"old": "a", "new": "a"}, "new equals it"),
    (84, "b\n", {"old": "a", "new": "b"}, "old does not occur; expected it 1 times"),
    (85, "a", {"old": "", "new": "a"}, "old is empty"),
    (88, "a b c\nb\nc\n", {"old": "a b c\n...\nc"}, ". The nearest line is 1: a b c"),
    (90, 'say "so" then\n', {"old": "say \u201cso\u201d then"}, '. The nearest line is 1: say "so" then'),
)


@each_row("row, content, edit, words", REFUSED)
def test_edits_that_are_asked_for_again(row: int, content: str, edit: dict[str, Any], words: str) -> None:
    """With what the file holds; where no line is like it, no line is named."""
    with pytest.raises(ToolError) as raised:
        edited(content.encode(), edit["old"], edit.get("new", "new"), edit.get("count", 1))
    assert words in str(raised.value)
    assert ("nearest" in words) == ("nearest" in str(raised.value))


TAKEN: tuple[tuple[int, str, dict[str, Any], str], ...] = (
    (89, "&lt;a&gt; <b>", {"old": "&lt;a&gt;", "new": "<a> &amp;"}, "<a> &amp; <b>"),
    (93, "one\ntwo", {"old": "two", "new": "three\n"}, "one\nthree\n"),
    (94, "a a", {"old": "a", "new": "b", "count": 2}, "b b"),
    (16, "a\r\nb\r\n", {"old": "a\r\nb", "new": "c"}, "c\r\n"),
)


@each_row("row, content, edit, after", TAKEN)
def test_edits_that_are_made(row: int, content: str, edit: dict[str, Any], after: str) -> None:
    """Byte for byte."""
    assert edited(content.encode(), edit["old"], edit["new"], edit.get("count", 1)) == after.encode()


@pytest.mark.heavy
def test_the_nearest_line_is_found_in_bounded_time() -> None:
    """Also in a file of long lines."""
    content = "".join(f"{n:300}\n" for n in range(50_000)).encode()
    began = time.monotonic()
    with pytest.raises(ToolError, match="does not occur"):
        edited(content, "b" * 1000, "x", 1)
    assert time.monotonic() - began < 8
