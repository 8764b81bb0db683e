"""Replacing literal text in a file, and saying why that cannot be done. Pure: bytes in, bytes out.

Nothing is matched by similarity: an edit that needs a guess is asked for again, with what the file holds."""

from __future__ import annotations

import difflib
import heapq
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from infra.cell.loop.registry import ToolError
from infra.cell.protocol.read import is_elided, oddities

SHOWN_PLACES = 20
MOST_LINES, MOST_LINE_CHARS = 20_000, 300
"""Of a file, when the nearest lines are looked for."""
MOST_COMPARED = 50
"""Lines that are compared in full: those that have the most characters in common. One may take 10 ms."""
MOST_SHOWN_LINES = 12
MOST_BYTES = 64 << 20
"""Of a file that an edit makes; many short texts and a long one in place of each have no room in memory."""
APPLIED = "nothing was replaced: the file already holds `new`, and not `old`"
_NUMBERED = re.compile(r"^[ \t]*\d+[ \t]*(?:\||:|\t|→|  )[ \t]?")
_PLAIN_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u00a0\u2013\u2014", "''\"\" --")


class Edited(NamedTuple):
    content: bytes
    replaced: int
    warning: str = ""


def edited(content: bytes, old: str, new: str, count: int, called: Callable[[str], str] = str) -> Edited:
    """`called` gives what an operation is called to the model. Raises ToolError unless `old` occurs exactly `count`
    times."""
    for problem in oddities("editFile", {"old": old, "new": new}, called):
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
        at = ", ".join(str(line) for line in _places(content, was)[:SHOWN_PLACES])
        raise ToolError(
            f"old occurs {found} times, in lines {at}; expected {count}",
            "Make old longer, so that it is found once, or set count",
        )
    if will and content.count(will) == count:
        return Edited(content, 0, APPLIED)
    text = content.decode(errors="replace")
    hint = _hint(text, old) or f"Copy old from the file; {called('readFile')} shows it"
    raise ToolError(f"old does not occur; expected it {count} times. {_nearest(text, old)}", hint)


def _places(content: bytes, was: bytes) -> list[int]:
    """The lines, from 1, in which it begins."""
    lines: list[int] = []
    line, start = 1, 0
    while (at := content.find(was, start)) >= 0 and len(lines) <= SHOWN_PLACES:
        line += content.count(b"\n", start, at)
        lines.append(line)
        line += content.count(b"\n", at, at + len(was))
        start = at + len(was)
    return lines


def _hint(text: str, old: str) -> str:
    """What is probably the matter, by name; empty when that is not known."""
    lines = old.split("\n")
    bare = [_NUMBERED.sub("", line) for line in lines]
    if all(_NUMBERED.match(line) for line in lines if line.strip()) and _is_in("\n".join(bare), text):
        return "old carries line numbers that the file does not hold: leave them out"
    if old.translate(_PLAIN_QUOTES) in text.translate(_PLAIN_QUOTES):
        return "old differs from the file in typographic quotes, dashes or spaces: copy it from the file"
    if "\r\n" in text and old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        return 'the lines of the file end in "\\r\\n", those of old do not: write them so, or edit within one line'
    if is_elided(old):
        return "old stands for lines that it leaves out: copy them all, or edit before and behind them"
    if _is_in(old, text):
        return "old differs from the file in white space alone: copy it from the file"
    return ""


def _is_in(old: str, text: str) -> bool:
    """But for white space."""
    return bool(old.strip()) and "".join(old.split()) in "".join(text.split())


def _nearest(text: str, old: str) -> str:
    lines = text.split("\n")[:MOST_LINES]
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:MOST_LINE_CHARS]
    stripped = [line.strip()[:MOST_LINE_CHARS] for line in lines]
    wanted = _NUMBERED.sub("", wanted)
    letters = Counter(wanted)
    alike = {line: 2 * (letters & Counter(line)).total() / (len(wanted) + len(line)) for line in set(stripped) if line}
    compared = heapq.nlargest(MOST_COMPARED, alike, key=lambda line: (alike[line], line))
    close = difflib.get_close_matches(wanted, compared, n=1, cutoff=0.5)
    if not close:
        return "No line of the file is like its first"
    at = stripped.index(close[0])
    shown = lines[at : at + min(old.count("\n") + 1, MOST_SHOWN_LINES)]
    quoted = "\n".join(f"{at + n:>6}  {line[:MOST_LINE_CHARS]}" for n, line in enumerate(shown, 1))
    return f"The nearest lines, behind their numbers:\n{quoted}\n"
