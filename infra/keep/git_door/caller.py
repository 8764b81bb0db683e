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
    while not (is_known := 0 < pid == _pid(places)) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    return is_known


def _pid(places: Paths) -> int:
    known = _known(places)
    return known.runner_pid if known else 0


def launched(places: Paths) -> tuple[str, str] | None:
    """The branch and the commit that the watcher launched; None when it does not say."""
    known = _known(places)
    return (known.branch, known.commit) if known and known.branch else None


def _known(places: Paths) -> watcher_file.WatcherFile | None:
    """None when it cannot be read: that is the watcher's own trouble, and reported by it."""
    try:
        with open(places.watcher_state, "rb") as file:
            return watcher_file.decode(file.read())
    except (OSError, ValueError):
        return None
