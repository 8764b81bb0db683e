"""The watcher's own clock, for every deadline, promise and window.

It stands still while the watcher does: what stopped the watcher, or held it up, may have held up the others too."""

from __future__ import annotations

import time

MOST_LATE = 2.0
"""Seconds; a busy machine's way."""


class WatchClock:
    def __init__(self) -> None:
        self._read = self._shown = time.monotonic()

    def now(self, waited: float = 0.0) -> float:
        """Seconds. `waited`: for how long the watcher meant to wait since it last asked."""
        read = time.monotonic()
        self._shown += min(read - self._read, waited + MOST_LATE)
        self._read = read
        return self._shown
