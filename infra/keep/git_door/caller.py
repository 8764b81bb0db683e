"""Who speaks for the agent: the runner that the watcher launched.

A command of the cell has another pid, though it is the same user; so it cannot speak in the runner's name by
connecting. No more is promised: it could as well write into the runner's memory."""

from __future__ import annotations

import asyncio
import time

from infra.keep.watcher_file import State, decode
from infra.shared.paths import Paths

PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.05


async def is_runner(places: Paths, pid: int, patience: float = PATIENCE_SECONDS) -> bool:
    """Whether the watcher names this process as its runner. It notes the pid after the launch, so this waits for it."""
    until = time.monotonic() + patience
    while not (is_known := 0 < pid == watcher_says(places).active.pid) and time.monotonic() < until:
        await asyncio.sleep(_LOOK_SECONDS)
    return is_known


def watcher_says(places: Paths) -> State:
    """An empty one when it cannot be read: that is the watcher's own trouble, and reported by it."""
    try:
        with open(places.watcher_state, "rb") as file:
            return decode(file.read())
    except (OSError, ValueError):
        return State()
