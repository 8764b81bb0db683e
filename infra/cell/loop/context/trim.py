"""Which long texts of an old conversation are cut to their two ends, and how. Pure.

Results of tools, and strings in the arguments of calls, over LEAST_CHARS are cut, what is old and long first: by its
bytes times its age; images become words. Everything else of a message stays: its place, its ids, its errors.

A result that was cut as it was made, whose whole lies in a file, is cut again when some newer ones like it are there,
however much room is left: its two ends would be sent with every request from then on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from infra.cell.loop.context.clip import was_clipped
from infra.cell.loop.context.spill import as_kept, path_of
from infra.cell.loop.context.tokens import bytes_of_block
from infra.shared.conversation import Block, Message, Text, ToolResult, ToolUse, without_images
from infra.shared.paths import OUTPUTS

LEAST_CHARS = 1500
"""A text up to this stays; what was cut is far below, so nothing is cut twice."""
END_CHARS = 150
"""Shown of each end."""
KEPT_STEPS, LEAST_STEPS = 4, 2
"""The last steps, each a reply and its results, that are left alone; fewer only where that is not enough."""
MOST_LARGE, KEPT_LARGE = 4, 2
"""Steps whose results were cut as they were made: with more of them than that, all but the last are cut again. Several
at once, as each time what the provider has cached of the conversation counts no more."""
EVENTS = ('{"protocol":1,"events":', '{"protocol": 1, "events": ')
"""So begins what the runtime says to a model that acts by operations."""
MOST_DEPTH = 8
"""Strings deeper within arguments stay: no tool takes such."""

_KEPT = re.compile(rf"{re.escape(OUTPUTS)}/[0-9a-f]{{16}}\.txt")
_WHOLE = re.compile(rf"(?<=: ){_KEPT.pattern}(?=\])")
WHOLE_CHARS = 400
"""The end of a result that was cut as it was made, where that path stands; an event has it beside the output."""

Where = Callable[[str], str]
"""The path under which a text can be read whole; empty when there is none."""
BESIDE = "beside"
"""In place of a path: an event says beside the text where the whole is."""


class Cut(NamedTuple):
    """A block that is to be trimmed."""

    message: int
    block: int
    saved: int
    """Bytes."""


class Cuts(NamedTuple):
    chosen: tuple[Cut, ...]
    size: int
    """Bytes of the whole conversation once they are made."""


def whereabouts(text: str) -> str:
    return path_of(as_kept(text.encode(errors="replace")))


def choose(messages: Sequence[Message], size: int, target: int, first: int, kept_steps: int) -> Cuts:
    """What to trim so that the conversation, of `size` bytes, has `target` bytes at most; everything that can be
    trimmed when that is not enough.

    The first `first` messages, the opening, and the last `kept_steps` steps are left alone."""
    found = [
        Cut(place, at, bytes_of_block(block) - bytes_of_block(less))
        for place in range(first, len(messages) - 2 * kept_steps)
        for at, block in enumerate(messages[place].content)
        if (less := trimmed(block, whereabouts)) != block
    ]
    found.sort(key=lambda cut: (-cut.saved * (len(messages) - cut.message), cut.message, cut.block))
    chosen = []
    for cut in found:
        if size <= target:
            break
        chosen.append(cut)
        size -= cut.saved
    return Cuts(tuple(sorted(chosen)), size)


def choose_large(messages: Sequence[Message], sizes: Sequence[int], first: int) -> tuple[Cut, ...]:
    """What to trim of the results that were cut as they were made; nothing as long as they are few, or more would have
    to be sent anew than is left out: what follows a change is not in the provider's cache. `sizes`: of the messages."""
    found = [
        Cut(place, at, saved)
        for place in range(first, len(messages))
        if sizes[place] > LEAST_CHARS  # looked at before each call of the model, and most messages are small
        for at, block in enumerate(messages[place].content)
        if (saved := _saved(block))
    ]
    places = list(dict.fromkeys(cut.message for cut in found))
    chosen: tuple[Cut, ...] = ()
    saved, after, end = 0, 0, len(messages)
    for number, place in enumerate(reversed(places), 1):
        after, end = after + sum(sizes[place:end]), place
        if number > KEPT_LARGE:
            saved += sum(cut.saved for cut in found if cut.message == place)
            if number > MOST_LARGE and after - saved <= saved:
                chosen = tuple(cut for cut in found if place <= cut.message < places[-KEPT_LARGE])
    return chosen


def _saved(block: Block) -> int:
    """Bytes; nothing unless it was cut as it was made and says where the whole is."""
    match block:
        case ToolResult(content=text):
            is_large = len(text) > LEAST_CHARS and bool(_whole_of(text))
        case Text(text=text) if text.startswith(EVENTS):
            is_large = len(text) > LEAST_CHARS and was_clipped(text) and bool(_KEPT.search(text))
        case _:
            return 0
    return bytes_of_block(block) - bytes_of_block(trimmed(block, whereabouts)) if is_large else 0


def made(messages: Sequence[Message], cuts: Sequence[Cut], where: Where) -> list[Message]:
    """The conversation with these blocks trimmed."""
    changed = list(messages)
    for cut in cuts:
        content = list(changed[cut.message].content)
        content[cut.block] = trimmed(content[cut.block], where)
        changed[cut.message] = changed[cut.message]._replace(content=tuple(content))
    return changed


def trimmed(block: Block, where: Where) -> Block:
    block = without_images(block)
    match block:
        case ToolResult(content=text):
            return block._replace(content=_ends(text, where))
        case ToolUse(input=given):
            return block._replace(input=_with_ends(given, where, MOST_DEPTH))
        case Text(text=text) if text.startswith(EVENTS):
            # Events are ours, so they are JSON; what a model wrote may be anything, and stays.
            events = json.loads(text)
            shorter = _with_ends(events, lambda text: BESIDE if was_clipped(text) else where(text), MOST_DEPTH)
            return (
                block
                if shorter == events
                else Text(json.dumps(shorter, ensure_ascii=text.isascii(), separators=(",", ":")))
            )
    return block


def _ends(text: str, where: Where) -> str:
    if len(text) <= LEAST_CHARS:
        return text
    note = f"[… {len(text)} characters were here, cut later to make room{_told(text, where)} …]"
    return f"{text[:END_CHARS]}\n{note}\n{text[-END_CHARS:]}"


def _told(text: str, where: Where) -> str:
    path = _whole_of(text) or where(text)
    if path == BESIDE:
        return ""
    return f": the whole is in {path}, for grep or sed" if path else ": the whole could not be kept"


def _whole_of(text: str) -> str:
    """The path of the whole, of a result that was cut as it was made."""
    found = _WHOLE.search(text, max(0, len(text) - WHOLE_CHARS)) if was_clipped(text) else None
    return found[0] if found else ""


def _with_ends(value: Any, where: Where, depth: int) -> Any:
    if isinstance(value, str):
        return _ends(value, where)
    if depth and isinstance(value, dict):
        return {key: _with_ends(inner, where, depth - 1) for key, inner in value.items()}
    if depth and isinstance(value, list):
        return [_with_ends(inner, where, depth - 1) for inner in value]
    return value
