"""Cutting long text in the middle, and saying so: the beginning tells what it is, the end how it went.

Text may come in pieces of any size; no more than the limit is ever held."""

from __future__ import annotations


class HeadAndTail:
    """The first and the last characters of a text that is fed in pieces."""

    def __init__(self, limit: int) -> None:
        self._head_limit, self._tail_limit = (limit + 1) // 2, limit // 2
        self._head = self._tail = ""
        self._total = 0

    def feed(self, piece: str) -> None:
        self._total += len(piece)
        room = max(0, self._head_limit - len(self._head))
        self._head += piece[:room]
        if self._tail_limit:
            self._tail = (self._tail + piece[room:][-self._tail_limit :])[-self._tail_limit :]

    def text(self) -> str:
        note = f"\n[… {self.left_out} of {self._total} characters left out here …]\n" if self.left_out else ""
        return f"{self._head}{note}{self._tail}"

    @property
    def left_out(self) -> int:
        return self._total - len(self._head) - len(self._tail)


def clip(text: str, limit: int) -> str:
    """`text` itself, or its two ends, together `limit` characters, around a note of what was left out."""
    kept = HeadAndTail(limit)
    kept.feed(text)
    return kept.text()
