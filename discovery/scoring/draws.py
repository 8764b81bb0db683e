"""Draws that follow from a key alone: the same bytes with every Python, which `random` does not promise."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

NONCE_DIGITS, LETTERS = 10, 4
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


class Draws:
    """An endless stream of numbers below what is asked for: SHA-256 of the key and a counter."""

    def __init__(self, *key: object) -> None:
        self._key = " ".join(str(word) for word in ("minifram world 1", *key)).encode()
        self._count = 0
        self._ready: list[int] = []

    def below(self, limit: int) -> int:
        """A whole number from 0 to limit - 1; the limit is far below 2**64, so that the rest of a division is even."""
        if not self._ready:
            self._count += 1
            digest = hashlib.sha256(b"%s %d" % (self._key, self._count)).digest()
            self._ready += struct.unpack(">4Q", digest)
        return self._ready.pop() % limit

    def between(self, least: int, most: int) -> int:
        """A whole number, both ends among them."""
        return least + self.below(most - least + 1)

    def one(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def some(self, of: Sequence[T], count: int) -> list[T]:
        """As many different elements, in the order of the draw."""
        rest, taken = list(of), []
        for _ in range(min(count, len(rest))):
            taken.append(rest.pop(self.below(len(rest))))
        return taken

    def word(self, syllables: int = 3) -> str:
        """A word that no language has: letters that a person can say."""
        return "".join(self.one(_CONSONANTS) + self.one(_VOWELS) for _ in range(syllables))


class Nonces:
    """Hexadecimal words of which none is given twice, and none that has a long number in it."""

    def __init__(self, draws: Draws, taken: frozenset[str] = frozenset()) -> None:
        self._draws = draws
        self._taken = set(taken)

    def new(self) -> str:
        while True:
            nonce = f"{self._draws.below(16**NONCE_DIGITS):0{NONCE_DIGITS}x}"
            if nonce not in self._taken and sum(letter.isalpha() for letter in nonce) >= LETTERS:
                self._taken.add(nonce)
                return nonce
