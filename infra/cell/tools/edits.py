"""Replacing literal text in a file, and saying why that cannot be done. Pure: bytes in, bytes out.

Nothing is matched by similarity: an edit that needs a guess is asked for again, with what the file holds."""

from __future__ import annotations

import re
from typing import NamedTuple

from infra.cell.tools.tool import ToolError

SHOWN_PLACES = 20
MOST_LINES, MOST_LINE_CHARS = 20_000, 300
"""Of a file, when the nearest lines are looked for."""
LIKE = 0.3
"""What two lines have in common at least, to be called near."""
MOST_SHOWN_LINES = 12
MOST_BYTES = 64 << 20
"""Of a file that an edit makes; many short texts and a long one in place of each have no room in memory."""
APPLIED = "nothing was replaced: the file already holds `new`, and not `old`"
_ELISION = re.compile(
    r"^[ \t]*(?:(?:#|//|--|/\*)[ \t]*)?(?:\.{3}|…)"
    r"(?:[ \t]*(?:\(?(?:rest|existing|remaining|same|unchanged)\b.*))?[ \t]*(?:\*/)?$"
    r"|^[ \t]*(?:#|//|--|/\*)[ \t]*(?:rest of|existing)\b.*\b(?:code|file|unchanged|here)\b",
    re.MULTILINE | re.IGNORECASE,
)


class Edited(NamedTuple):
    content: bytes
    replaced: int
    warning: str = ""


def is_elided(text: str) -> bool:
    """It holds a line that stands for lines left out."""
    return _ELISION.search(text) is not None


def problem_with_edit(old: str, new: str) -> str:
    """Why this cannot be meant; empty when it can."""
    if not old:
        return "old is empty; expected text that the file holds; a new file is created whole"
    if old == new:
        return "old and new are equal; expected a change"
    if is_elided(new) and not is_elided(old):
        return "new stands for lines that it leaves out; expected the whole text that replaces old"
    return ""


def edited(content: bytes, old: str, new: str, count: int) -> Edited:
    """Raises ToolError unless `old` occurs exactly `count` times."""
    if problem := problem_with_edit(old, new):
        raise ToolError(problem)
    was, will = old.encode(), new.encode()
    found = content.count(was)
    if not found and was.endswith(b"\n") and content.endswith(was[:-1]) and content.count(was[:-1]) == count:
        return Edited(content.replace(was[:-1], will.removesuffix(b"\n")), count)  # the file ends without a newline
    if found == count:
        size = len(content) + count * (len(will) - len(was))
        if size > MOST_BYTES:
            raise ToolError(f"the file would have {size} bytes; expected at most {MOST_BYTES}", "Write it by a program")
        return Edited(content.replace(was, will), found)
    if found:
        at = ", ".join(str(line) for line in _places(content, was))
        raise ToolError(
            f"old occurs {found} times, in lines {at}; expected {count}",
            "Make old longer, so that it is found once, or set count",
        )
    if will and content.count(will) == count:
        return Edited(content, 0, APPLIED)
    near = _nearest(content.decode(errors="replace"), old)
    raise ToolError(f"old does not occur; expected it {count} times. {near}", "Read the file, and copy old from it")


def _places(content: bytes, was: bytes) -> list[int]:
    """The first lines, from 1, in which it begins."""
    lines: list[int] = []
    at = -len(was)
    while (at := content.find(was, at + len(was))) >= 0 and len(lines) < SHOWN_PLACES:
        lines.append(content.count(b"\n", 0, at) + 1)
    return lines


def _nearest(text: str, old: str) -> str:
    lines = text.split("\n")[:MOST_LINES]
    wanted = _triples(next((line for line in old.split("\n") if line.strip()), ""))

    def likeness(at: int) -> float:
        found = _triples(lines[at])
        return 2 * len(wanted & found) / (len(wanted) + len(found))

    at = max(range(len(lines)), key=likeness)
    if likeness(at) < LIKE:
        return "No line of the file is like its first"
    shown = lines[at : at + min(old.count("\n") + 1, MOST_SHOWN_LINES)]
    quoted = "\n".join(f"{at + n:>6}  {line[:MOST_LINE_CHARS]}" for n, line in enumerate(shown, 1))
    return f"The nearest lines, behind their numbers:\n{quoted}\n"


def _triples(line: str) -> set[str]:
    """All that stands in it, three characters at a time, whatever white space is around it."""
    line = line.strip()[:MOST_LINE_CHARS]
    return {line[at : at + 3] for at in range(max(1, len(line) - 2))}
