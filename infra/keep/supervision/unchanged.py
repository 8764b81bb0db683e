"""Whether something is as it was when it was last looked at, told by its status alone: one call to the kernel, where a
look takes dozens."""

from __future__ import annotations

import os
import time

SETTLED_SECONDS = 3.0
"""What changes twice within one tick of a file system's clock may have the same status after both: a look at what has
not changed for so long leaves out nothing."""

_Status = tuple[int, int, int, int, int]


class Unchanged:
    """Of one path; a link is looked at itself, and a directory changes with the names in it."""

    def __init__(self, path: str, settled_seconds: float = SETTLED_SECONDS) -> None:
        self._path = path
        self._settled_seconds = settled_seconds
        self._status: _Status | None = None
        """At the last `is_it`."""
        self._since = 0.0
        self._looked_at: _Status | None = None
        """What a look has found nothing to do at."""

    def is_it(self) -> bool:
        """Since the last `looked`."""
        try:
            found = os.lstat(self._path)
            status = (found.st_dev, found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)
        except OSError:
            self._status = self._looked_at = None
            return False
        if status != self._status:
            self._status, self._since = status, time.monotonic()
        return status == self._looked_at

    def looked(self) -> None:
        """A look after the last `is_it` has found nothing to do."""
        is_settled = time.monotonic() - self._since >= self._settled_seconds
        self._looked_at = self._status if is_settled else None
