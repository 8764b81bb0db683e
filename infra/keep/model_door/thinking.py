"""The thoughts that a model's tool calls came with, kept in the door's memory and given back with the next request,
because the provider wants them back and the runner's conversation has no place for them.

A thought is bound to everything that stood before it (the provider refuses it elsewhere), so it is given back only
under the same fingerprint; what is not remembered is left out, which the provider allows. Losing them all, as at a
restart, costs quality of thought and nothing else."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

MAX_TURNS = 500
MAX_CHARACTERS = 8_000_000

THOUGHT_TYPES = ("thinking", "redacted_thinking")

Blocks = list[dict[str, Any]]


class _Turn(NamedTuple):
    fingerprint: str
    blocks: Blocks
    size: int


class Thoughts:
    """Whole turns by the id of their first tool call; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, _Turn] = OrderedDict()
        self._size = 0

    def remember(self, blocks: Blocks, fingerprint: str) -> None:
        """Keep a turn as the provider sent it, when it has both thoughts and tool calls."""
        key = _first_call(blocks)
        if key is None or not any(block["type"] in THOUGHT_TYPES for block in blocks):
            return
        self._forget(key)
        turn = _Turn(fingerprint, blocks, len(str(blocks)))
        self._turns[key] = turn
        self._size += turn.size
        while len(self._turns) > MAX_TURNS or self._size > MAX_CHARACTERS:
            self._forget(next(iter(self._turns)))

    def recalled(self, content: Blocks, fingerprint: str) -> Blocks:
        """`content` with the thoughts it came with, when it is the same turn at the same place; else unchanged."""
        turn = self._turns.get(_first_call(content) or "")
        if turn is None or turn.fingerprint != fingerprint or visible(turn.blocks) != content:
            return content
        return turn.blocks

    def _forget(self, key: str) -> None:
        turn = self._turns.pop(key, None)
        self._size -= turn.size if turn else 0


def visible(blocks: Blocks) -> Blocks:
    return [block for block in blocks if block["type"] not in THOUGHT_TYPES]


def _first_call(blocks: Blocks) -> str | None:
    return next((block["id"] for block in blocks if block["type"] == "tool_use"), None)
