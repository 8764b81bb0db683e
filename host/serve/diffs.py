"""A patch of git's as files and lines, and what each file is to the agent. Pure."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from host.screen import LINE_CHARS, harmless
from infra.shared.repository.version import is_keeps

MOST_LINES = 3000
"""Of all files; `minifram review BRANCH` shows the rest."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_CHANGES = (("new file", "new"), ("deleted file", "gone"), ("rename from", "renamed"), ("Binary", "binary"))
_FORMAT = HtmlFormatter(nowrap=True)


class Line(NamedTuple):
    kind: str
    """`add`, `del`, `same`, or `note` for what is no line of the file."""
    old: str
    """Its number before and after; empty where it is not there."""
    new: str
    text: Markup


class FileDiff(NamedTuple):
    path: str
    zone: str
    change: str
    """`new`, `gone`, `changed`, `renamed`, `binary`."""
    added: int
    removed: int
    lines: tuple[Line, ...]
    left_out: int
    """Lines that are not shown."""


def zone_of(path: str) -> str:
    """Where in the house a file lies, as the PM decides about it."""
    name = path.encode(errors="replace")
    if is_keeps(name):
        return "keep"
    if path.startswith("tests/"):
        return "test"
    if path.startswith("infra/shared/"):
        return "shared"
    if path.startswith("infra/"):
        return "cell"
    if path in ("SYSTEM.md", "services.yaml") or path.startswith(("spec/", "requirements")):
        return "steers it"
    return "own work"


def files_of(patch: str) -> list[FileDiff]:
    """What `git diff --patch` printed."""
    room, found = MOST_LINES, list[FileDiff]()
    for part in re.split(r"^diff --git ", patch, flags=re.MULTILINE)[1:]:
        found.append(_file(part, room))
        room -= len(found[-1].lines)
    return found


def _file(part: str, room: int) -> FileDiff:
    head, mark, body = part.partition("\n@@ ")
    path, lexer = _name(head), None
    with contextlib.suppress(ClassNotFound):
        lexer = get_lexer_for_filename(path.rpartition("/")[2], stripnl=False, ensurenl=False)
    rows = list(_rows((mark + body).strip("\n").split("\n"))) if mark else []
    kinds = Counter(kind for kind, _, _, _ in rows)
    lines = tuple(
        Line(kind, old, new, _coloured(text, None if kind == "note" else lexer)) for kind, old, new, text in rows[:room]
    )
    change = next((change for words, change in _CHANGES if f"\n{words}" in head), "changed")
    return FileDiff(path, zone_of(path), change, kinds["add"], kinds["del"], lines, len(rows) - len(lines))


def _rows(rows: list[str]) -> Iterator[tuple[str, str, str, str]]:
    old = new = 0
    for row in rows:
        sign, text = row[:1], row[1:]
        if hunk := _HUNK.match(row):
            old, new = int(hunk[1]), int(hunk[2])
            yield "note", "", "", f"@@ line {new}{hunk[3]}"
        elif sign == "+":
            yield "add", "", str(new), text
            new += 1
        elif sign == "-":
            yield "del", str(old), "", text
            old += 1
        elif sign == "\\":
            yield "note", "", "", text.strip()
        else:
            yield "same", str(old), str(new), text
            old, new = old + 1, new + 1


def _name(head: str) -> str:
    for mark in ("+++ b/", "--- a/", "rename to "):
        for line in head.split("\n"):
            if line.startswith(mark):
                return line.removeprefix(mark).rstrip("\t")
    # An empty file, a mode, a binary, or a name that git quotes: both names are the same.
    first = head.partition("\n")[0]
    return first[len(first) // 2 + 1 :].removeprefix('"').removesuffix('"').removeprefix("b/")


def _coloured(text: str, lexer: Lexer | None) -> Markup:
    """One line, harmless, with the classes of pygments: without its neighbours, so inside a long string it may err."""
    more = len(text) - LINE_CHARS
    shown = harmless(text[:LINE_CHARS]) + (f" … ({more} more characters)" if more > 0 else "")
    if lexer is None or more > 0:
        return escape(shown)
    return Markup(highlight(shown, lexer, _FORMAT))  # noqa: S704 - pygments escapes what it colours
