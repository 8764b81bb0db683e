"""Who speaks for the agent: the runner that the watcher launched.

A command of the cell has another pid, though it is the same user; so it cannot speak in the runner's name by
connecting. No more is promised: it could as well write into the runner's memory."""

from __future__ import annotations

import time

from infra.keep import watcher_file
from infra.shared.paths import Paths

PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.05


def is_runner(places: Paths, pid: int, patience: float = PATIENCE_SECONDS) -> bool:
    """Whether the watcher names this process as its runner. It notes the pid after the launch, so this waits for it."""
    until = time.monotonic() + patience
    while not (known := 0 < pid == _named(places.watcher_state)) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    return known


def _named(path: str) -> int:
    """0 when there is none, or the file cannot be read: that is the watcher's own trouble, and reported by it."""
    try:
        with open(path, "rb") as file:
            return watcher_file.decode(file.read()).runner_pid
    except (OSError, ValueError):
        return 0
