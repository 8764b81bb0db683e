"""Which long texts of an old conversation are cut down to their two ends, and how. Pure.

What is cut: results of tools, and strings in the arguments of calls, over LEAST_CHARS. What is old and long goes first:
by its bytes times its age. Everything else of a message stays as it was: its place, its ids, its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from infra.cell.loop.outputs import MOST_BYTES, path_of
from infra.cell.loop.sizes import bytes_of_block
from infra.shared.conversation import Block, Message, Text, ToolResult, ToolUse

LEAST_CHARS = 1500
"""A text up to this stays; what was cut is far below, so nothing is cut twice."""
END_CHARS = 150
"""Shown of each end."""
KEPT_STEPS, LEAST_STEPS = 4, 2
"""The last steps, each a reply and what came of it, that are left alone; fewer only where that is not enough."""
MOST_DEPTH = 8
"""Strings deeper within arguments stay: no tool takes such."""

Where = Callable[[str], str]
"""The path under which a text can be read whole; empty when there is none."""


class Cut(NamedTuple):
    """A block that is to be shortened."""

    message: int
    block: int
    saved: int
    """Bytes."""


class Cuts(NamedTuple):
    chosen: tuple[Cut, ...]
    size: int
    """Bytes of the whole conversation once they are made."""


def whereabouts(text: str) -> str:
    return path_of(as_kept(text))


def as_kept(text: str) -> bytes:
    return text.encode(errors="replace")[:MOST_BYTES]


def choose(messages: Sequence[Message], size: int, target: int, first: int, kept_steps: int) -> Cuts:
    """What to shorten so that the conversation, of `size` bytes, has `target` bytes at most; all that can be when that
    is not enough.

    The first `first` messages, the opening, and the last `kept_steps` steps are left alone."""
    end = len(messages) - 2 * kept_steps
    found = [
        Cut(place, at, bytes_of_block(block) - bytes_of_block(shortened(block, whereabouts)))
        for place in range(first, end)
        for at, block in enumerate(messages[place].content)
        if is_long(block)
    ]
    found.sort(key=lambda cut: (-cut.saved * (len(messages) - cut.message), cut.message, cut.block))
    chosen = []
    for cut in found:
        if size <= target:
            break
        chosen.append(cut)
        size -= cut.saved
    return Cuts(tuple(sorted(chosen)), size)


def made(messages: Sequence[Message], cuts: Sequence[Cut], where: Where) -> list[Message]:
    """The conversation with these blocks shortened."""
    changed = list(messages)
    for cut in cuts:
        content = list(changed[cut.message].content)
        content[cut.block] = shortened(content[cut.block], where)
        changed[cut.message] = changed[cut.message]._replace(content=tuple(content))
    return changed


def is_long(block: Block) -> bool:
    match block:
        case ToolResult(content=text):
            return len(text) > LEAST_CHARS
        case ToolUse(input=given):
            return any(len(text) > LEAST_CHARS for text in _strings(given, MOST_DEPTH))
        case Text():
            return False


def shortened(block: Block, where: Where) -> Block:
    match block:
        case ToolResult(content=text):
            return block._replace(content=_ends(text, where))
        case ToolUse(input=given):
            return block._replace(input=_with_ends(given, where, MOST_DEPTH))
        case Text():
            return block


def _ends(text: str, where: Where) -> str:
    if len(text) <= LEAST_CHARS:
        return text
    path = where(text)
    whole = f"the whole is in {path}, for read_file, grep or sed" if path else "the whole could not be kept"
    note = f"[… {len(text)} characters were here, cut later to make room: {whole} …]"
    return f"{text[:END_CHARS]}\n{note}\n{text[-END_CHARS:]}"


def _strings(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner, depth - 1)


def _with_ends(value: Any, where: Where, depth: int) -> Any:
    if isinstance(value, str):
        return _ends(value, where)
    if depth and isinstance(value, dict):
        return {key: _with_ends(inner, where, depth - 1) for key, inner in value.items()}
    if depth and isinstance(value, list):
        return [_with_ends(inner, where, depth - 1) for inner in value]
    return value
