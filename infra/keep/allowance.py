"""How often something may be done: so much at once, and then as much as time gives back. The time is an argument, of
the monotonic clock."""

from __future__ import annotations

from math import inf


class Allowance:
    """`at_once`: the most that may be used up; one comes back in `seconds_each`."""

    def __init__(self, at_once: float, seconds_each: float) -> None:
        self._most, self._seconds_each = at_once, seconds_each
        self._left, self._at = at_once, -inf

    def left(self, now: float) -> float:
        """Below 0 where it was overdrawn."""
        self._left = min(self._most, self._left + max(0.0, now - self._at) / self._seconds_each)
        self._at = max(self._at, now)
        return self._left

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Use so much, if so much is left."""
        if self.left(now) < cost:
            return False
        self._left -= cost
        return True

    def overdraw(self, now: float) -> float:
        """Use one, also where none is left; the seconds until it has come back."""
        self._left = self.left(now) - 1.0
        return max(0.0, -self._left * self._seconds_each)
