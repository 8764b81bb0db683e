"""How often something may be done: so many times at once, and then as often as time gives it back."""

from __future__ import annotations


class Allowance:
    def __init__(self, at_once: int, seconds_each: float) -> None:
        self._most, self._seconds_each = at_once, seconds_each
        self._left = float(at_once)
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Use one, if one is left at this moment of the monotonic clock."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._left = min(float(self._most), self._left + passed / self._seconds_each)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
