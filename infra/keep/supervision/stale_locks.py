"""Locks on the shared repository's refs whose git was killed or lost its power: with them, main cannot be moved."""

from __future__ import annotations

import os

import structlog

from infra.shared.paths import Paths

HELD_SECONDS = 10.0
"""git holds such a lock for moments. One that was seen for so long, as the monotonic clock counts, has no holder."""
OLD_SECONDS, GLANCE_SECONDS = 30.0, 2.0
"""One that is so old by the wall's clock is seen for a glance only: its holder may have slept with the machine, or the
clock have been set, so it gets a moment to go on. A watcher that never lives for long still gets rid of it."""
LOOK_SECONDS = 60.0
"""Between two looks while there is none; each reads the directories of all refs."""


class StaleLocks:
    """The lock files seen so far. `due`: when to look next, on the monotonic clock."""

    def __init__(self, places: Paths, log: structlog.stdlib.BoundLogger) -> None:
        self._remote = places.remote
        self._log = log
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}
        """By path: which file it is, and since when it was seen."""
        self.due = 0.0

    def look(self, at: float, wall: float) -> None:
        """Remove those that were seen long enough; what cannot be read or removed is left to the next look."""
        seen = {}
        for path in _locks_of_refs(self._remote):
            try:
                status = os.lstat(path)
                stamp = (status.st_ino, status.st_mtime_ns)
                known, since = self._seen.get(path, (stamp, at))
                needed = GLANCE_SECONDS if wall - status.st_mtime >= OLD_SECONDS else HELD_SECONDS
                if known == stamp and at - since >= needed:
                    os.unlink(path)
                    self._log.warning("lock.removed", path=path)
                else:
                    seen[path] = (stamp, since if known == stamp else at)
            except FileNotFoundError:  # its owner was quicker
                continue
            except OSError as error:
                self._log.error("lock.not_removed", path=path, reason=str(error))
        self._seen = seen
        self.due = at + (GLANCE_SECONDS if seen else LOOK_SECONDS)


def _locks_of_refs(remote: str) -> list[str]:
    """Where git may have left one; no branch's name ends so (git-check-ref-format(1))."""
    found = [f"{remote}/{name}.lock" for name in ("packed-refs", "HEAD")]
    for directory, _, names in os.walk(f"{remote}/refs"):
        found += [f"{directory}/{name}" for name in names if name.endswith(".lock")]
    return found
