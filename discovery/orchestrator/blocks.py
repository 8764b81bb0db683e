"""The action protocol: a block is named sections, and a pre-exec block has exactly one command. Pure.

A tag stands at the beginning of a line, in any case, with blanks, list marks or bold around it. Blank lines, fences and
closing tags are no part of a section."""

from __future__ import annotations

import re
from typing import NamedTuple

PRE = ("intent", "command", "expected", "onerror")
POST = ("observation", "inference", "next")
COMMAND_BYTES = 100_000
"""Linux takes no single argument of 128 KiB."""
FORM = """\
<Intent>
One sentence: what you are trying to learn.

<Command>
ONE shell command, on one line

<Expected>
What you expect to see.

<OnError>
What you will do if it fails."""

_NAMES = r"(intent|command|expected|on[ _-]?error|observation|inference|next)"
_TAG = re.compile(rf"^[ \t>*#\ufeff-]*<\s*{_NAMES}\s*>[*:]*", re.IGNORECASE)
_END = re.compile(rf"<\s*/\s*{_NAMES}\s*>[\s*]*$", re.IGNORECASE)
_FENCE = re.compile(r"^\s*(```|~~~)[\w+-]*\s*$")


class BlockError(ValueError):
    """`block` is not carried out. The text says why and shows the right form."""

    def __init__(self, block: str, why: str) -> None:
        super().__init__(f"{why}.\nThe right form:\n\n{FORM}")
        self.block = block


class Section(NamedTuple):
    name: str
    lines: list[str]
    """Those that are not blank."""


def tag_of(line: str) -> str:
    """The name of the section that this line begins; empty for none."""
    found = _TAG.match(line)
    return re.sub(r"[ _-]", "", found[1].lower()) if found else ""


def sections(text: str) -> list[Section]:
    """In their order. What stands before the first tag is left out."""
    found: list[Section] = []
    for line in _lines(text):
        if name := tag_of(line):
            found.append(Section(name, []))
            line = _TAG.sub("", line)
        line = _END.sub("", line)
        if found and line.strip() and not _FENCE.match(line):
            found[-1].lines.append(line)
    return found


def is_whole(text: str) -> bool:
    """The block's last section is there and has text."""
    found = sections(text)
    return bool(found) and found[-1].name in ("onerror", "next") and bool(found[-1].lines)


def command_of(block: str) -> str:
    """The one command of a pre-exec block. Raises BlockError."""
    found = sections(block)
    if any(section.name in POST for section in found):
        raise BlockError(block, "a command counts only in a pre-exec block, whose <Intent> follows the text of <Next>")
    given = [section.lines for section in found if section.name == "command" and section.lines]
    if len(given) != 1:
        raise BlockError(block, f"the block has {len(given)} commands; exactly one is expected")
    if len(given[0]) > 1:
        why = f"<Command> has {len(given[0])} lines; one is expected. Join commands with && or ;"
        raise BlockError(block, f"{why}; write a file with printf '%s\\n' 'line' 'line' > FILE")
    command = given[0][0].strip()
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise BlockError(block, "the command has a character that UTF-8 cannot encode") from None
    if "\0" in command or size > COMMAND_BYTES:
        raise BlockError(block, f"the command has {size:,} bytes; expected at most {COMMAND_BYTES:,}, none of them NUL")
    return command


def split(reply: str) -> tuple[str, str]:
    """The post-exec block of a model's reply and the pre-exec block behind it; each may be empty.

    A block that the model quotes in its <Observation> is no command of its own: behind a post-exec block, the pre-exec
    block begins with the first <Intent> after the last <Next>. What breaks this comes back whole as the second, which
    `command_of` refuses."""
    lines = _lines(reply)
    tags = [tag_of(line) for line in lines]
    last = max((at for at, tag in enumerate(tags) if tag in POST), default=-1)
    own = {at: tag for at, tag in enumerate(tags) if at > last and tag in PRE}
    if last < 0:
        begin = min(own, default=0)
    elif not own:
        begin = len(lines)
    elif tags[last] == "next" and "intent" in own.values():
        begin = next(at for at, tag in own.items() if tag == "intent")
    else:
        return "", reply
    return "\n".join(lines[:begin]).strip(), "\n".join(lines[begin:]).strip()


def _lines(text: str) -> list[str]:
    """Not str.splitlines: it takes form feeds and line separators, which a command may hold, for ends of lines."""
    return re.split(r"\r\n|\r|\n", text)
