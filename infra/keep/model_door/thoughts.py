"""The thoughts that a model's tool calls came with, kept in the door's memory and given back with the next request,
because the provider wants them back and the runner's conversation has no place for them.

A thought is bound to everything that stood before it (the provider refuses it elsewhere), so it is given back only
to the same turn behind the same bytes; what is not remembered is left out, which the provider allows. Losing them all,
as at a restart, costs quality of thought and nothing else."""

from __future__ import annotations

import hashlib

MAX_BYTES = 8_000_000


class Thoughts:
    """Turns with their thoughts, by what stood before them and how the runner sees them; the oldest go first."""

    def __init__(self) -> None:
        self._turns: dict[bytes, bytes] = {}
        self._size = 0

    def remember(self, before: bytes, shown: bytes, whole: bytes) -> None:
        """`shown`: the turn's JSON as it will come back from the runner; `whole`: as the provider sent it."""
        if shown == whole:
            return
        key = _key(before, shown)
        self._size += len(whole) - len(self._turns.pop(key, b""))
        self._turns[key] = whole
        while self._size > MAX_BYTES:
            self._size -= len(self._turns.pop(next(iter(self._turns))))

    def recalled(self, before: bytes, shown: bytes) -> bytes:
        return self._turns.get(_key(before, shown), shown)


class Place:
    """How far a request has been written: what a thought at this place is bound to."""

    def __init__(self, thoughts: Thoughts, *before: bytes) -> None:
        self._thoughts = thoughts
        self._digest = hashlib.sha256(b"\n".join(before))

    def after(self, content: bytes, role: str) -> bytes:
        """`content` as it is sent: a turn of the model's with the thoughts that it came with."""
        if role == "assistant":
            content = self._thoughts.recalled(self.digest, content)
        self._digest.update(b"\n" + content)
        return content

    @property
    def digest(self) -> bytes:
        return self._digest.digest()


def _key(before: bytes, shown: bytes) -> bytes:
    return hashlib.sha256(before + shown).digest()
