"""COMMS.md as a document (seed 001, COMMS.md Format): Directives from the PM, Reports from the agent.

Pure text in, text out. A directive is a top-level list item of the Directives section, or a paragraph of it. It
is done when its box is ticked or its text is struck through; only the runner's own `tick` and the PM change it.
Text between HTML comment marks is nobody's directive."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

DIRECTIVES = "Directives"
REPORTS = "Reports"


class Directive(NamedTuple):
    id: str
    """First 8 hex digits of the sha256 of its text: the same words are the same directive."""
    text: str
    """Without list mark and box; continuation lines unindented."""
    done: bool
    line: int
    """Index of its first line in the document."""


class CommsError(ValueError):
    """COMMS.md lacks a section; carries which, so that it can be put back."""

    def __init__(self, section: str) -> None:
        super().__init__(f"COMMS.md has no section '## {section}'; add that heading on a line of its own")
        self.section = section


_HEADING = re.compile(r"##\s+(.+?)\s*#*\s*$|#\s+(?i:(directives|reports))\s*#*\s*$")
"""A level 1 heading counts only with one of our names: `# …` inside a block of code is a comment."""
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+(?:\[(?P<box>[ xX])\]\s+)?(?P<text>.*)")


def directives(document: str) -> list[Directive]:
    """All directives in order. Raises CommsError when there is no Directives section.

    An open item above a ticked one with the same words counts as done: git's union merge leaves such pairs
    when the PM's edit and a tick meet."""
    lines = document.splitlines()
    start, end = _section(lines, DIRECTIVES)
    found = [_directive(lines, first, last) for first, last in _blocks(lines, start, end)]
    ticked_at = {item.text: item.line for item in found if item.done}
    return [item._replace(done=item.done or ticked_at.get(item.text, -1) > item.line) for item in found]


def open_directives(document: str) -> list[Directive]:
    return [item for item in directives(document) if not item.done]


def tick(document: str, ids: tuple[str, ...]) -> str:
    """Tick the open directives with these ids; everything else stays to the byte. Unknown ids change nothing."""
    lines = document.splitlines(keepends=True)
    for item in directives(document):
        if item.done or item.id not in ids:
            continue
        line = lines[item.line]
        match = _ITEM.match(line)
        if match is None:
            lines[item.line] = f"- [x] {line}"
        elif match["box"] is None:
            lines[item.line] = f"{line[: match.start('text')]}[x] {line[match.start('text') :]}"
        else:
            lines[item.line] = f"{line[: match.start('box')]}x{line[match.end('box') :]}"
    return "".join(lines)


def add_directive(document: str, text: str) -> str:
    """Put an open directive at the end of the Directives section. Raises ValueError for empty text."""
    words = text.strip().splitlines()
    if not words:
        raise ValueError("the directive is empty; say what the agent should do")
    block = [f"- [ ] {words[0]}"] + [f"  {word}".rstrip() for word in words[1:]]
    return _insert_at_end(document, DIRECTIVES, block)


def add_report(document: str, title: str, text: str, at: str) -> str:
    """Put a report at the end of the Reports section.

    Headings inside `text` are escaped, so that a report can never open a section of its own."""
    block = [f"### {at} {' '.join(title.split())}", ""]
    block += [re.sub(r"^( {0,3})#", r"\1\\#", line).rstrip() for line in text.strip().splitlines()]
    return _insert_at_end(document, REPORTS, block)


def with_sections(document: str) -> str:
    """The document with both sections; a missing one is added at the end, nothing else changes."""
    for section in (DIRECTIVES, REPORTS):
        try:
            _section(document.splitlines(), section)
        except CommsError:
            document = f"{document.rstrip()}\n\n## {section}\n".lstrip("\n")
    return document


def section_text(document: str, section: str) -> str:
    """What stands under a heading, without it. Raises CommsError when it is missing."""
    lines = document.splitlines()
    start, end = _section(lines, section)
    return "\n".join(lines[start:end]).strip("\n")


def reports(document: str) -> list[str]:
    """Each report of the Reports section, heading first, oldest first."""
    text = section_text(document, REPORTS)
    return [part.rstrip() for part in re.split(r"^(?=### )", text, flags=re.MULTILINE) if part.startswith("### ")]


def _section(lines: list[str], name: str) -> tuple[int, int]:
    start = -1
    for index, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading is None:
            continue
        if start >= 0:
            return start, index
        if (heading[1] or heading[2]).lower() == name.lower():
            start = index + 1
    if start < 0:
        raise CommsError(name)
    return start, len(lines)


def _blocks(lines: list[str], start: int, end: int) -> list[tuple[int, int]]:
    """First and one-past-last line of each directive between `start` and `end`."""
    blocks: list[tuple[int, int]] = []
    first, blank, commented = -1, False, False
    for index in range(start, end):
        line = lines[index]
        if commented or line.lstrip().startswith("<!--"):
            commented = "-->" not in line
            if first >= 0:
                blocks.append((first, index))
                first = -1
            continue
        if not line.strip():
            blank = True
            continue
        if first >= 0 and (line[0] in " \t" or (not blank and not _ITEM.match(line))):
            blank = False
            continue
        if first >= 0:
            blocks.append((first, index))
        first, blank = index, False
    return blocks + ([(first, end)] if first >= 0 else [])


def _directive(lines: list[str], first: int, last: int) -> Directive:
    match = _ITEM.match(lines[first])
    head = match["text"] if match else lines[first]
    text = "\n".join([head, *(line.strip() for line in lines[first + 1 : last])]).strip()
    struck = text.startswith("~~") and text.endswith("~~") and len(text) > 4
    done = struck or bool(match and match["box"] in ("x", "X"))
    return Directive(hashlib.sha256(text.encode()).hexdigest()[:8], text, done, first)


def _insert_at_end(document: str, section: str, block: list[str]) -> str:
    lines = document.splitlines()
    start, end = _section(lines, section)
    while end > start and not lines[end - 1].strip():
        end -= 1
    tail = lines[end:]
    while tail and not tail[0].strip():
        tail.pop(0)
    return "\n".join([*lines[:end], "", *block, *([""] if tail else []), *tail]) + "\n"
