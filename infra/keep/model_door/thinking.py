"""The thoughts that a model's tool calls came with, kept in the door's memory and given back with the next request,
because the provider wants them back and the runner's conversation has no place for them.

A thought is bound to everything that stood before it (the provider refuses it elsewhere), so it is given back only
under the same fingerprint; what is not remembered is left out, which the provider allows. Losing them all, as at a
restart, costs quality of thought and nothing else."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from infra.keep.model_door.encoding import canonical

MAX_TURNS = 500
MAX_CHARACTERS = 8_000_000

THOUGHT_TYPES = ("thinking", "redacted_thinking", "reasoning")
PHASE = "phase"
"""Of a text of OpenAI's: whether it is a comment on the way or the answer. It wants that back, too."""

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
        """Keep a turn as the provider sent it, when it has tool calls and what the runner's conversation has not."""
        key = _first_call(blocks)
        if key is None or visible(blocks) == blocks:
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


def with_thoughts(
    turns: Iterable[tuple[str, Blocks]], before: Any, thoughts: Thoughts
) -> tuple[list[tuple[str, Blocks]], str]:
    """The messages by role, the assistant's with the thoughts that they came with, and the fingerprint of all of it.
    `before`: what else a thought can be bound to."""
    digest = hashlib.sha256(canonical(before))
    whole = []
    for role, blocks in turns:
        found = thoughts.recalled(blocks, digest.hexdigest()) if role == "assistant" else blocks
        digest.update(canonical([role, found]))
        whole.append((role, found))
    return whole, digest.hexdigest()


def visible(blocks: Blocks) -> Blocks:
    shown = (block for block in blocks if block["type"] not in THOUGHT_TYPES)
    return [{key: value for key, value in block.items() if key != PHASE} for block in shown]


def _first_call(blocks: Blocks) -> str | None:
    ids = (block.get("call_id", block.get("id")) for block in blocks if block["type"] in ("tool_use", "function_call"))
    return next(ids, None)
