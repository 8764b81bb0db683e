"""COMMS.md as a document: Directives from the PM, Reports from the agent. Pure text in, text out.

As much of Markdown as the page needs, read so that a forgotten mark hides nothing; what is added never touches what was
there. Lines end at newlines and at nothing else that Unicode calls a line end. A directive is a top-level list item of
the Directives section, or a paragraph of it; it is done when its box is ticked or its text is struck through. Comments
are nobody's directive."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

DIRECTIVES = "Directives"
REPORTS = "Reports"
ABOUT = "Directive: "
"""Begins the first line of a report that ends a run; ids follow."""
_OURS = ("directives", "reports")
"""The headings that always count, wherever they stand."""
_NAME = re.compile(r"#{1,2}\s+(?P<name>.*?)\s*#*\s*")
_ITEM = re.compile(
    r"( {0,3})(?P<mark>[-*+]|[0-9]{1,9}[.)])(?:\s+|\Z)(?:\[(?P<box>[ xX])\](?:\s+|\Z))?(?P<text>.*)", re.S
)
_RULE = re.compile(r"(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}")
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}(?=[^`]*\Z)|~{3,})")
_COMMENTS = re.compile(r"\s*(?:<!--(?:(?!-->).)*-->\s*)+", re.S)
_STRUCK = re.compile(r"~~.+?~~", re.S)
_HEADING = re.compile(r"^( {0,3})(?=#|=+[ \t]*$|-+[ \t]*$)|(?=</?h[1-6]\b)", re.I)
"""A heading's mark, a line below words that makes them one, or a tag: where it begins."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
ANSWER = re.compile(
    r"(?P<word>approve|deny)\s+[`\[]?(?P<id>[0-9a-f]{16})[`\]]?(?:\s*[:,.!-]\s*|\s+|\Z)(?P<rest>.*)", re.I | re.S
)


class Directive(NamedTuple):
    id: str
    """First 8 hex digits of the sha256 of its text: the same words are the same directive."""
    text: str
    """Without list mark and box; continuation lines without the item's indentation."""
    done: bool
    line: int
    """Index of its first line, counting newlines."""


class CommsError(ValueError):
    """COMMS.md lacks a section; carries which, so that it can be put back."""

    def __init__(self, section: str) -> None:
        super().__init__(f"COMMS.md has no section '## {section}'; add that heading on a line of its own")
        self.section = section


def directives(document: str) -> list[Directive]:
    """All directives in order. Raises CommsError when there is no Directives section.

    An open item above a ticked one with the same words counts as done: git's union merge leaves such pairs
    when the PM's edit and a tick meet. An answer to a question does not: to give it again is to say it again."""
    lines = _lines(document)
    hidden = _hidden(lines)
    blocks = [each for section in _sections(lines, DIRECTIVES) for each in _blocks(lines, hidden, *section)]
    found = [_directive(lines, hidden, *block) for block in blocks]
    found = [each for each in found if each.text and not _COMMENTS.fullmatch(each.text)]
    ticked = {each.text: each.line for each in found if each.done and not _is_answer(each.text)}
    return [each._replace(done=each.done or ticked.get(each.text, -1) > each.line) for each in found]


def open_directives(document: str) -> list[Directive]:
    return [item for item in directives(document) if not item.done]


def _is_answer(text: str) -> bool:
    return all(ANSWER.fullmatch(line.strip()) for line in text.splitlines() if line.strip())


def reports(document: str) -> list[str]:
    """Each report of the Reports section, heading first, oldest first. Raises CommsError."""
    lines = _lines(document)
    return ["\n".join(lines[start:end]).rstrip() for start, end in report_spans(document)]


def report_spans(document: str) -> list[tuple[int, int]]:
    """First and one-past-last line of each report, counting newlines, oldest first. Raises CommsError."""
    lines, spans = _lines(document), []
    for start, end in _sections(lines, REPORTS):
        begins = [at for at in range(start, end) if lines[at].startswith("### ")]
        spans += list(zip(begins, [*begins[1:], end], strict=False))
    return spans


def with_sections(document: str) -> str:
    """The document with both sections; a missing one is added at the end, nothing else changes."""
    newline = _newline(document)
    for section in (DIRECTIVES, REPORTS):
        if not _spans(_lines(document), section):
            document += newline if document and not document.endswith("\n") else ""
            document += f"{newline if document else ''}## {section}{newline}"
    return document


def tick(document: str, ids: tuple[str, ...]) -> str:
    """Tick the open directives with these ids; everything else stays byte for byte. Unknown ids are ignored."""
    lines = document.split("\n")
    for item in open_directives(document):
        if item.id in ids:
            lines[item.line] = _ticked(lines[item.line], _newline(document))
    return "\n".join(lines)


def add_directive(document: str, text: str) -> str:
    """Add an open directive at the end of the Directives section. Raises ValueError for empty text, CommsError."""
    words = _plain(text)
    if not words:
        raise ValueError("the directive is empty; say what the agent should do")
    lines = _lines(document)
    start, end = _sections(lines, DIRECTIVES)[-1]
    hidden = _hidden(lines)
    if any(lines[at].startswith("<!--") and at not in hidden for at in range(start, end)):
        words = [word.replace("-->", r"--\>") for word in words]  # it would close that comment
    # Indented lines are no headings, no comments and no end of a fence, whatever they hold.
    return _insert(document, DIRECTIVES, [f"- [ ] {words[0]}", *(f"  {word}".rstrip() for word in words[1:])])


def report_heading(title: str, at: str) -> str:
    """The first line of a report, as `reports` gives it back."""
    return f"### {at} {_uncommented(' '.join(_plain(' '.join(title.split()))))}".rstrip()


def add_report(document: str, title: str, text: str, at: str, under: str = "") -> str:
    """Put a report at the end of the Reports section. Raises CommsError.

    In `text` headings of every kind and comment marks are escaped and an open fence is closed, so that a report can
    neither open a section of its own nor swallow what comes after it. `under` is written below it as it is: the
    caller's own."""
    lines = [_HEADING.sub(lambda found: f"{found[1] or ''}\\", _uncommented(line)) for line in _plain(text)]
    own = ["", *_plain(under)] if under else []
    return _insert(document, REPORTS, [report_heading(title, at), "", *_with_closed_fences(lines), *own])


# Reading.


def _lines(document: str) -> list[str]:
    return [line.removesuffix("\r") for line in document.split("\n")]


def _heading(line: str) -> str:
    """What a heading of level 2 says, in lower case; empty for all other lines.

    A level 1 heading counts only with one of our names: otherwise it may be a comment in unfenced code."""
    found = _NAME.fullmatch(line) if line.startswith("#") else None
    name = found["name"].lower() if found else ""
    return name if line.startswith("##") or name in _OURS else ""


def _hidden(lines: list[str]) -> dict[int, str]:
    """The lines of comments, as `<`, and of code, as the mark of its fence.

    Both begin at the left edge. One that is not closed before the next Directives or Reports heading is plain text: a
    forgotten mark must not hide a directive, let alone a section."""
    found: dict[int, str] = {}
    edges = [at for at, line in enumerate(lines) if _heading(line) in _OURS]
    for start, end in zip([0, *edges], [*edges, len(lines)], strict=True):
        at, hopeless = start, dict.fromkeys("<`~", 1 << 30)
        while at < end:
            fence = _FENCE.match(lines[at])
            mark = "<!--" if lines[at].startswith("<!--") else fence["mark"] if fence and lines[at][0] != " " else ""
            # A mark that was sought in vain once is not sought again: reading stays linear.
            if mark and len(mark) < hopeless[mark[0]]:
                last = next((each for each in range(at, end) if _closes(lines[each], mark, each == at)), None)
                if last is None:
                    hopeless[mark[0]] = len(mark)
                else:  # words behind a comment's end count
                    has_words = mark == "<!--" and lines[last].rpartition("-->")[2].strip()
                    found |= dict.fromkeys(range(at, last if has_words else last + 1), mark)
                    at = last
            at += 1
    return found


def _closes(line: str, mark: str, is_opening: bool) -> bool:
    if mark == "<!--":
        return "-->" in (line[4:] if is_opening else line)
    return not is_opening and line.startswith(mark) and not line.rstrip().strip(mark[0])


def _spans(lines: list[str], name: str) -> list[tuple[int, int]]:
    """First and one-past-last line under each heading `name`: a merge can leave two, and both are meant."""
    hidden = _hidden(lines)
    heads = [at for at, line in enumerate(lines) if at not in hidden and _heading(line)]
    pairs = zip(heads, [*heads[1:], len(lines)], strict=False)
    return [(start + 1, end) for start, end in pairs if _heading(lines[start]) == name.lower()]


def _sections(lines: list[str], name: str) -> list[tuple[int, int]]:
    if found := _spans(lines, name):
        return found
    raise CommsError(name)


def _blocks(lines: list[str], hidden: dict[int, str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """First and one-past-last line of each item and paragraph between `start` and `end`."""
    first, nested, blank = -1, 0, False
    for at in range(start, end):
        line, mark = lines[at], hidden.get(at)
        if mark == "<!--" or not (mark or line.strip()):
            blank = True
            continue
        item, rule = (None, None) if mark else (_ITEM.match(line), _RULE.fullmatch(line))
        own_item = item and len(item[1]) < nested
        if first >= 0 and not rule and not own_item and (line[:1] in " \t" or not (blank or item)):
            blank = False
            continue
        if first >= 0:
            yield first, at
        # As people write lists: two columns to the right of an item's mark is under that item.
        first, nested, blank = (-1 if rule else at), 2 + (len(item[1]) if item else 0), False
    if first >= 0:
        yield first, end


def _directive(lines: list[str], hidden: dict[int, str], first: int, last: int) -> Directive:
    item = None if first in hidden else _ITEM.match(lines[first])
    # Ticking a paragraph makes it an item with the mark "-"; its text must not change by that.
    column = item.end("mark") + 1 if item else 2
    rest = [lines[at] for at in range(first + 1, last) if hidden.get(at) != "<!--"]
    rest = [line[min(column, len(line) - len(line.lstrip(" "))) :].rstrip() for line in rest]
    text = "\n".join([(item["text"] if item else lines[first]).rstrip(), *rest]).strip()
    struck = bool(_STRUCK.search(text)) and not _STRUCK.sub("", text).strip()
    id = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return Directive(id, text, struck or bool(item and item["box"] in ("x", "X")), first)


# Writing.


def _ticked(line: str, newline: str) -> str:
    """The first line of a directive with its box ticked; two lines where that line begins a block of code."""
    item = _ITEM.match(line.removesuffix("\r"))
    if item is None:
        return f"- [x]{newline if _FENCE.match(line) else ' '}{line}"
    if item["box"]:
        return f"{line[: item.start('box')]}x{line[item.end('box') :]}"
    mark, text = line[: item.start("text")], line[item.start("text") :]
    return f"{mark}{'' if mark[-1].isspace() else ' '}[x] {text}"


def _insert(document: str, section: str, block: list[str]) -> str:
    """Put lines after the last words of a section; every byte of the document stays, in its order."""
    lines, newline = _lines(document), _newline(document)
    start, end = _sections(lines, section)[-1]
    while end > start and not lines[end - 1].strip():
        end -= 1
    raw = document.split("\n")
    before, after = "\n".join(raw[:end]), "\n".join(raw[end:])
    if end == len(raw):  # the document's last line has no newline yet
        return newline.join([before, "", *block, ""])
    gap = [""] if lines[end].strip() else []
    return before + "\n" + "".join(line + newline for line in ["", *block, *gap]) + after


def _newline(document: str) -> str:
    return "\r\n" if "\r\n" in document else "\n"


def _plain(text: str) -> list[str]:
    """The lines of new text, without what a terminal or git would take for more than text.

    A zero byte would make git treat the page as binary, and half of a surrogate pair cannot be written at all."""
    text = text.encode(errors="replace").decode()
    return [_CONTROL.sub("\N{REPLACEMENT CHARACTER}", line).rstrip() for line in text.strip().splitlines()]


def _uncommented(line: str) -> str:
    return line.replace("<!--", r"<\!--")


def _with_closed_fences(lines: list[str]) -> list[str]:
    """The lines with all fences at the left edge, and the one that closes the block of code that they leave open.

    Markdown takes a fence that is indented a little, the page only one at the left edge; so both read the same, and a
    later one, of the PM's, closes nothing here."""
    fence, found = "", []
    for line in lines:
        mark = _FENCE.match(line)
        found.append(line.lstrip(" ") if mark else line)
        if not fence:
            fence = mark["mark"] if mark else ""
        elif mark and _closes(found[-1], fence, False):
            fence = ""
    return [*found, *([fence] if fence else [])]
