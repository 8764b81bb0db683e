"""COMMS.md as a document (seed 001, COMMS.md Format): Directives from the PM, Reports from the agent.

Pure text in, text out, and lossless: lines end at newlines and at nothing else that Unicode calls a line end, and
what is added never touches what was there. A directive is a top-level list item of the Directives section, or a
paragraph of it. It is done when its box is ticked or its text is struck through; only the runner's own `tick` and
the PM change it. Text between HTML comment marks is nobody's directive."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from infra.shared.comms_lines import FENCE, ITEM, Kind, blocks_of, kinds_of, lines_of, sections_of

DIRECTIVES = "Directives"
REPORTS = "Reports"


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


_ID = r"[0-9a-f]{16}"
"""Of a question."""
ANSWER = re.compile(
    rf"(?P<word>approve|deny)\s+[`\[]?(?P<id>{_ID})[`\]]?(?:\s*[:,.!-]\s*|\s+|\Z)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_STRUCK = re.compile(r"~~.+?~~", re.DOTALL)
_HEADING = re.compile(r"^( {0,3})(?=#|=+[ \t]*$|-+[ \t]*$)|(?=</?h[1-6]\b)", re.IGNORECASE)
"""A heading's mark, a line below words that makes them one, or a tag: where it begins."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def directives(document: str) -> list[Directive]:
    """All directives in order. Raises CommsError when there is no Directives section.

    An open item above a ticked one with the same words counts as done: git's union merge leaves such pairs
    when the PM's edit and a tick meet. An answer to a question does not: to give it again is to say it again."""
    return [Directive(_id(text), text, done, line) for text, done, line in wishes(document)]


def wishes(document: str) -> list[tuple[str, bool, int]]:
    """Text, state and line of each directive, for callers that need no ids. Raises CommsError."""
    lines = lines_of(document)
    kinds = kinds_of(lines)
    found = [
        _wish(lines, kinds, first, last)
        for start, end in _sections(lines, kinds, DIRECTIVES)
        for first, last in blocks_of(lines, kinds, start, end)
    ]
    found = [(text, done, line) for text, done, line in found if text and not _is_comment(text)]
    ticked_at = {text: line for text, done, line in found if done}
    return [
        (text, done or (ticked_at.get(text, -1) > line and not is_answer(text)), line) for text, done, line in found
    ]


def is_answer(text: str) -> bool:
    """Whether a directive consists of answers to the agent's questions (`approvals`), one a line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return bool(lines) and all(map(ANSWER.fullmatch, lines))


def open_directives(document: str) -> list[Directive]:
    return [item for item in directives(document) if not item.done]


def tick(document: str, ids: tuple[str, ...]) -> str:
    """Tick the open directives with these ids; everything else stays byte for byte. Unknown ids are ignored."""
    lines = document.split("\n")
    for item in directives(document):
        if item.done or item.id not in ids:
            continue
        lines[item.line] = _ticked_line(lines[item.line], _newline(document))
    return "\n".join(lines)


def add_directive(document: str, text: str) -> str:
    """Add an open directive at the end of the Directives section. Raises ValueError for empty text, CommsError."""
    words = _plain_lines(text)
    if not words:
        raise ValueError("the directive is empty; say what the agent should do")
    if _has_open_comment(document):  # an arrow in this text would close it, and hide what stands between
        words = [word.replace("-->", r"--\>") for word in words]
    # Indented lines are no headings, no comments and no end of a fence, whatever they hold.
    block = [f"- [ ] {words[0]}", *(f"  {word}".rstrip() for word in words[1:])]
    return _insert_at_end(document, DIRECTIVES, block)


def report_heading(title: str, at: str) -> str:
    """The first line of a report, as `reports` gives it back."""
    return f"### {at} {_without_comment_mark(' '.join(_plain_lines(' '.join(title.split()))))}".rstrip()


def add_report(document: str, title: str, text: str, at: str, under: str = "") -> str:
    """Put a report at the end of the Reports section. Raises CommsError.

    In `text` headings of every kind and comment marks are escaped and an open fence is closed, so that a report can
    neither open a section of its own nor swallow what comes after it. `under` is written below it as it is: the
    caller's own."""
    lines = _with_closed_fences([_without_heading(_without_comment_mark(line)) for line in _plain_lines(text)])
    own = ["", *_plain_lines(under)] if under else []
    return _insert_at_end(document, REPORTS, [report_heading(title, at), "", *lines, *own])


def with_sections(document: str) -> str:
    """The document with both sections; a missing one is added at the end, nothing else changes."""
    newline = _newline(document)
    for section in (DIRECTIVES, REPORTS):
        lines = lines_of(document)
        if not sections_of(lines, kinds_of(lines), section):
            if document and not document.endswith("\n"):
                document += newline
            document += f"{newline if document else ''}## {section}{newline}"
    return document


def section_text(document: str, section: str) -> str:
    """The text of a section, without its heading. Raises CommsError when it is missing."""
    lines = lines_of(document)
    texts = ("\n".join(lines[start:end]).strip("\n") for start, end in _sections(lines, kinds_of(lines), section))
    return "\n\n".join(text for text in texts if text)


def reports(document: str) -> list[str]:
    """Each report of the Reports section, heading first, oldest first."""
    text = section_text(document, REPORTS)
    return [part.rstrip() for part in re.split(r"^(?=### )", text, flags=re.MULTILINE) if part.startswith("### ")]


def report_spans(document: str) -> list[tuple[int, int]]:
    """First and one-past-last line of each report, counting newlines, oldest first. Raises CommsError."""
    lines = lines_of(document)
    spans = []
    for start, end in _sections(lines, kinds_of(lines), REPORTS):
        begins = [index for index in range(start, end) if lines[index].startswith("### ")]
        spans += list(zip(begins, [*begins[1:], end], strict=False))
    return spans


def _sections(lines: list[str], kinds: list[Kind], name: str) -> list[tuple[int, int]]:
    found = sections_of(lines, kinds, name)
    if not found:
        raise CommsError(name)
    return found


def _wish(lines: list[str], kinds: list[Kind], first: int, last: int) -> tuple[str, bool, int]:
    match = ITEM.match(lines[first]) if kinds[first] is Kind.TEXT else None
    head = match["text"] if match else lines[first]
    # Ticking a paragraph makes it an item with the mark "-"; its text must not change by that.
    column = match.end("mark") + 1 if match else 2
    rest = (lines[index] for index in range(first + 1, last) if kinds[index] is not Kind.HIDDEN)
    text = "\n".join([head.rstrip(), *(_unindented(line, column).rstrip() for line in rest)]).strip()
    struck = bool(_STRUCK.search(text)) and not _STRUCK.sub("", text).strip()
    done = struck or bool(match and match["box"] in ("x", "X"))
    return text, done, first


def _id(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def _ticked_line(line: str, newline: str = "\n") -> str:
    """The first line of a directive with its box ticked; two lines where that line begins a block of code."""
    match = ITEM.match(line.removesuffix("\r"))
    if match is None:
        # A fence must go on beginning its line.
        return f"- [x]{newline if FENCE.match(line) else ' '}{line}"
    if match["box"]:
        return f"{line[: match.start('box')]}x{line[match.end('box') :]}"
    mark, text = line[: match.start("text")], line[match.start("text") :]
    return f"{mark}{'' if mark[-1].isspace() else ' '}[x] {text}"


def _is_comment(text: str) -> bool:
    return text.startswith("<!--") and text.endswith("-->") and not _COMMENT.sub("", text).strip()


def _unindented(line: str, columns: int) -> str:
    """Without the spaces that put it under its item, at most `columns`; its own indentation stays."""
    return line[min(columns, len(line) - len(line.lstrip(" "))) :]


# Writing.


def _insert_at_end(document: str, section: str, block: list[str]) -> str:
    """Put lines after the last words of a section; every byte of the document stays, in its order."""
    lines = lines_of(document)
    start, end = _sections(lines, kinds_of(lines), section)[-1]
    while end > start and not lines[end - 1].strip():
        end -= 1
    newline = _newline(document)
    raw = document.split("\n")
    before, after = "\n".join(raw[:end]), "\n".join(raw[end:])
    if end == len(raw):  # the document's last line has no newline yet
        return newline.join([before, "", *block, ""])
    gap = [""] if lines[end].strip() else []
    return before + "\n" + "".join(line + newline for line in ["", *block, *gap]) + after


def _newline(document: str) -> str:
    return "\r\n" if "\r\n" in document else "\n"


def _plain_lines(text: str) -> list[str]:
    """The lines of new text, without what a terminal or git would take for more than text.

    A zero byte would make git treat the page as binary, and half of a surrogate pair cannot be written at all."""
    text = text.encode(errors="replace").decode()
    return [_CONTROL.sub("\N{REPLACEMENT CHARACTER}", line).rstrip() for line in text.strip().splitlines()]


def _without_comment_mark(line: str) -> str:
    return line.replace("<!--", r"<\!--")


def _without_heading(line: str) -> str:
    return _HEADING.sub(lambda found: f"{found[1] or ''}\\", line)


def _with_closed_fences(lines: list[str]) -> list[str]:
    """The lines, and the fence that closes the block of code that they leave open, if they do.

    Markdown takes a fence that is indented a little, the page only one at the left edge. Where the two disagree on what
    is open at the end, all fences are moved to the left edge: a later one, of the PM's, must not close it."""
    closed = [*lines, *_missing_fence(lines, 3)]
    if not _missing_fence(closed, 0):
        return closed
    flush = [line.lstrip(" ") if FENCE.match(line) else line for line in lines]
    return [*flush, *_missing_fence(flush, 3)]


def _missing_fence(lines: list[str], most_indent: int) -> list[str]:
    """The fence that closes what `lines` leave open, for a reader who takes fences that are indented so far."""
    indent, mark = "", ""
    for line in lines:
        bare = line.lstrip(" ")
        if len(line) - len(bare) > most_indent:
            continue
        if mark:
            if bare.startswith(mark) and not bare.rstrip().strip(mark[0]):
                mark = ""
        elif fence := FENCE.match(bare):
            indent, mark = line[: len(line) - len(bare)], fence["mark"]
    return [indent + mark] if mark else []


def _has_open_comment(document: str) -> bool:
    """Whether the Directives section has a comment mark that nothing closes, so that it counts as text."""
    lines = lines_of(document)
    kinds = kinds_of(lines)
    start, end = _sections(lines, kinds, DIRECTIVES)[-1]
    return any(kinds[at] is Kind.TEXT and lines[at].startswith("<!--") for at in range(start, end))
