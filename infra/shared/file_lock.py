"""Taking a lock on an open file or directory that another process may hold for a while. The lock goes with its process:
a killed one never leaves it behind."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable


def lock_until(
    descriptor: int, until: float, pause_seconds: float = 0.05, between: Callable[[], object] = lambda: None
) -> bool:
    """Try until then (monotonic), once at least; whether it is held now. `between` is called before each pause, and may
    raise to end it."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            between()
            time.sleep(pause_seconds)
        else:
            return True
