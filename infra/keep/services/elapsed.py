"""How long something has lasted, counted only while the watcher was there to see it, and when it looks again."""

from __future__ import annotations

LATE_SECONDS = 2.0
"""A look that is later than this was held up; less is a busy machine's way."""


def next_beat(at: float, seconds: float) -> float:
    """The next multiple of these seconds: what is done each second and what is done every three fall together."""
    return (at // seconds + 1.0) * seconds


class Elapsed:
    """How long something has lasted, as far as the watcher was there to see it: what stopped the watcher may have
    stopped the others too, so of a look that is late only `LATE_SECONDS` count."""

    def __init__(self) -> None:
        self._looked: float | None = None
        """When it was seen last; None while it does not last."""
        self._seconds = 0.0

    def looks(self, at: float, lasts: bool) -> float:
        """Monotonic seconds from the first look that found it to this one; 0 when it does not last."""
        if not lasts:
            self._looked, self._seconds = None, 0.0
            return 0.0
        if self._looked is not None:
            self._seconds += min(max(0.0, at - self._looked), LATE_SECONDS)
        self._looked = at
        return self._seconds
