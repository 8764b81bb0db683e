"""Cutting long text in the middle, and saying so: the beginning tells what it is, the end how it went.

Text may come in pieces of any size; no more than the limit is ever held."""

from __future__ import annotations


class HeadAndTail:
    """The first and the last characters of a text that is fed in pieces."""

    def __init__(self, limit: int) -> None:
        self._head_limit = (limit + 1) // 2
        self._tail_limit = limit - self._head_limit
        self._head = ""
        self._tail = ""
        self._total = 0

    def feed(self, piece: str) -> None:
        self._total += len(piece)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece and self._tail_limit:
            self._tail = (self._tail + piece[-self._tail_limit :])[-self._tail_limit :]

    def text(self) -> str:
        return self._head + (note(self.left_out, self._total) if self.left_out else "") + self._tail

    @property
    def left_out(self) -> int:
        return self._total - len(self._head) - len(self._tail)


def note(left_out: int, total: int) -> str:
    return f"\n[… {left_out} of {total} characters left out here …]\n"


def shorten(text: str, limit: int) -> str:
    """`text` itself, or its two ends, together `limit` characters, around a note of what was left out."""
    if len(text) <= limit:
        return text
    kept = HeadAndTail(limit)
    kept.feed(text)
    return kept.text()
