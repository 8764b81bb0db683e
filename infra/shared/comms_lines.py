"""How COMMS.md is cut: a text into lines, lines into kinds and sections, a section into items and paragraphs.

As much of Markdown as the page needs, read so that a forgotten mark never hides a section. Lines end at newlines
and at nothing else that Unicode calls a line end; what the pieces mean is left to `comms`."""

from __future__ import annotations

import re
from enum import Enum, auto

ITEM = re.compile(
    r"(?P<indent> {0,3})(?P<mark>[-*+]|[0-9]{1,9}[.)])(?:\s+|\Z)(?:\[(?P<box>[ xX])\](?:\s+|\Z))?(?P<text>.*)",
    re.DOTALL,
)
"""A list item at the top level: its mark, its box if it has one, and its first line."""
FENCE = re.compile(r"(?P<indent> {0,3})(?P<mark>`{3,}(?=[^`]*\Z)|~{3,})")
"""The first line of a block of code."""
_RULE = re.compile(r"(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}")
OURS = ("directives", "reports")
"""The headings that always count, wherever they stand."""


class Kind(Enum):
    TEXT = auto()
    FENCED = auto()
    """Part of a block of code, its fences too."""
    HIDDEN = auto()
    """Part of an HTML comment."""


def lines_of(document: str) -> list[str]:
    return [line.removesuffix("\r") for line in document.split("\n")]


def kinds_of(lines: list[str]) -> list[Kind]:
    """The kind of each line.

    Comments and fences begin at the left edge. One that is not closed before the next Directives or Reports heading is
    plain text: a forgotten mark must not hide a directive, let alone a section."""
    kinds = [Kind.TEXT] * len(lines)
    edges = [index for index, line in enumerate(lines) if _heading(line) in OURS]
    for start, end in zip([0, *edges], [*edges, len(lines)], strict=True):
        index = start
        hopeless: dict[str, int] = {}
        while index < end:
            mark, kind = _opening(lines[index])
            last = -1
            # A mark that was sought in vain once is not sought again: reading stays linear.
            if mark and len(mark) < hopeless.get(mark[0], 1 << 30):
                last = next((at for at in range(index, end) if _closes(lines[at], mark, at == index)), -1)
                if last < 0:
                    hopeless[mark[0]] = len(mark)
            if last >= 0:
                hides_words = kind is Kind.HIDDEN and lines[last].rpartition("-->")[2].strip()
                stop = last if hides_words else last + 1
                kinds[index:stop] = [kind] * (stop - index)
                index = last
            index += 1
    return kinds


def _opening(line: str) -> tuple[str, Kind]:
    if not line.startswith(("<!--", "`", "~")):
        return "", Kind.TEXT
    if line.startswith("<!--"):
        return "<!--", Kind.HIDDEN
    fence = FENCE.match(line)
    return (fence["mark"], Kind.FENCED) if fence and not fence["indent"] else ("", Kind.TEXT)


def _closes(line: str, mark: str, is_opening: bool) -> bool:
    if mark == "<!--":
        return "-->" in (line[4:] if is_opening else line)
    return not is_opening and line.startswith(mark) and not line.rstrip().strip(mark[0])


def _heading(line: str) -> str:
    """What a heading of level 2 says, in lower case; empty for all other lines.

    A level 1 heading counts only with one of our names: otherwise it may be a comment in unfenced code."""
    if not line.startswith("#"):
        return ""
    words = line.lstrip("#")
    level = len(line) - len(words)
    if level not in (1, 2) or not words[:1].isspace():
        return ""
    name = words.strip().rstrip("#").rstrip().lower()
    return name if level == 2 or name in OURS else ""


def sections_of(lines: list[str], kinds: list[Kind], name: str) -> list[tuple[int, int]]:
    """First and one-past-last line under each heading `name`: a merge can leave two, and both are meant."""
    headings = [index for index, line in enumerate(lines) if kinds[index] is Kind.TEXT and _heading(line)]
    ends = [*headings[1:], len(lines)]
    pairs = zip(headings, ends, strict=False)
    return [(index + 1, end) for index, end in pairs if _heading(lines[index]) == name.lower()]


def blocks_of(lines: list[str], kinds: list[Kind], start: int, end: int) -> list[tuple[int, int]]:
    """First and one-past-last line of each item and paragraph between `start` and `end`."""
    blocks: list[tuple[int, int]] = []
    first, nested, blank = -1, 0, False
    for index in range(start, end):
        line = lines[index]
        fenced = kinds[index] is Kind.FENCED
        if kinds[index] is Kind.HIDDEN or (not fenced and not line.strip()):
            blank = True
            continue
        item = None if fenced else ITEM.match(line)
        rule = not fenced and _RULE.fullmatch(line)
        if first >= 0 and not rule:
            own_item = item and len(item["indent"]) < nested
            if not own_item and (line[:1] in " \t" or not (blank or item)):
                blank = False
                continue
        if first >= 0:
            blocks.append((first, index))
        # As people write lists: two columns to the right of an item's mark is under that item.
        first, nested, blank = (-1 if rule else index), 2 + (len(item["indent"]) if item else 0), False
    return blocks + ([(first, end)] if first >= 0 else [])
