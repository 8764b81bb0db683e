"""The action protocol: the one command of a pre-exec block, found whatever the block's looks. Pure.

Blank lines, the case of tags, fences, CRLF, closing tags and missing other sections do not matter. A block with any
other number of commands than one is refused, with an error that shows the right form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PRE = ("intent", "command", "expected", "onerror")
POST = ("observation", "inference", "next")
COMMAND_BYTES = 100_000
"""At most, of a command in UTF-8: Linux takes no single argument of 128 KiB."""
BLOCK_CHARACTERS = 1_000_000
"""At most, of a block."""

FORM = """\
<Intent>
One sentence: what you are trying to learn.

<Command>
ONE shell command, on one line

<Expected>
What you expect to see.

<OnError>
What you will do if it fails."""

_DECORATION = r"[ \t>*#-]*"
_NAMES = "intent|command|expected|on[ _-]?error|observation|inference|next"
_TAG = re.compile(rf"^{_DECORATION}<[ \t]*(?:(/)[ \t]*)?({_NAMES})[ \t]*>(?:\*+:?|:)?", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$")
_FENCED = re.compile(r"^(```|~~~)(?:\w+[ \t])?(.+)\1$")
_HERE_DOCUMENT = re.compile(r"(?<!<)<<(?!<)")


class BlockError(ValueError):
    """A block that cannot be carried out: why, and the right form."""


class Tag(NamedTuple):
    """A line that opens or closes a section, and what stands behind the tag in the same line."""

    name: str
    closes: bool
    rest: str


def parse(block: str) -> str:
    """The one command of a pre-exec block: a single line. Raises BlockError."""
    if len(block) > BLOCK_CHARACTERS:
        raise _error(f"the block has {len(block):,} characters; at most {BLOCK_CHARACTERS:,} are taken")
    found = [(name, lines) for name, lines in _sections(block) if name]
    sections = [lines for name, lines in found if name == "command"]
    if not block.strip():
        raise _error("the block is empty")
    if not sections:
        if any(name in POST for name, _ in found):
            raise _error("this is a post-exec block, and no command has run for it; a pre-exec block is expected")
        raise _error("there is no <Command> section")
    filled = [lines for lines in sections if lines]
    if not filled:
        raise _error("the <Command> section is empty; exactly one command is expected")
    if len(filled) > 1:
        raise _error(f"there are {len(filled)} <Command> sections; exactly one command is expected")
    return _checked(filled[0])


def tag(line: str) -> Tag | None:
    """The tag that a line begins with."""
    found = _TAG.match(line)
    if not found:
        return None
    name = re.sub(r"[ _-]", "", found[2].lower())
    return Tag(name, bool(found[1]), line[found.end() :])


def is_fence(line: str) -> bool:
    return bool(_FENCE.match(line))


def unified(text: str) -> str:
    """`text` with one kind of line end, and no byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _sections(block: str) -> Iterator[tuple[str, list[str]]]:
    """Names and lines that are not blank, in order; what stands in no section has no name."""
    name, lines = "", list[str]()
    for line in unified(block).split("\n"):
        opened = tag(line)
        if opened:
            yield name, lines
            name, lines = ("" if opened.closes else opened.name), []
            line = opened.rest
        if is_fence(line):
            continue
        if name:
            line, closed = _without_end(line, name)
        else:
            closed = False
        if line.strip(" \t"):
            lines.append(line)
        if closed:
            yield name, lines
            name, lines = "", []
    yield name, lines


def _without_end(line: str, name: str) -> tuple[str, bool]:
    """A line without the closing tag of its section at its end, and whether there was one."""
    begin, end = line.rfind("<"), line.rstrip(" \t")
    inside = end[begin + 1 : -1].lstrip(" \t")
    if begin < 0 or not end.endswith(">") or not inside.startswith("/"):
        return line, False
    if re.sub(r"[ \t_-]", "", inside[1:].lower()) != name:
        return line, False
    return line[:begin], True


def _checked(lines: list[str]) -> str:
    if len(lines) > 1:
        if _HERE_DOCUMENT.search(lines[0]):
            raise _error(
                "a here-document needs several lines, and the command has one. "
                "Write the file with: printf '%s\\n' 'first line' 'second line' > FILE"
            )
        raise _error(
            f"<Command> has {len(lines)} lines; exactly one command, on one line, is expected. Join steps with && or ;"
        )
    command = lines[0].lstrip(" \t")
    if not command.rstrip(" \t").endswith("\\"):  # else a blank behind it is part of the command
        command = command.rstrip(" \t")
    fenced = _FENCED.match(command)
    if fenced:
        command = fenced[2].strip(" \t") or command
    if "\0" in command:
        raise _error("the command holds a NUL character, which no command can")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise _error("the command holds characters that UTF-8 has none of") from None
    if size > COMMAND_BYTES:
        raise _error(f"the command has {size:,} bytes; at most {COMMAND_BYTES:,} are taken. Write a file in parts")
    return command


def _error(what: str) -> BlockError:
    return BlockError(f"{what}.\nThe right form:\n\n{FORM}")
