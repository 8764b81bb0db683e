"""Waiting for what other processes do, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_SECONDS, MOST_SECONDS, RESTS = 0.01, 0.2, 4.0
"""Between two looks, at least and at most; and how many times as long as the last look took, so that looking leaves the
processors to whom it waits for."""


def wait_for(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Poll until `condition` holds; fails after a deadline."""
    began = looked = time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < began + seconds, f"{what}: not within {seconds} s"
        time.sleep(min(max(POLL_SECONDS, RESTS * (now - looked)), MOST_SECONDS))
        looked = time.monotonic()


def gone(pid: int) -> bool:
    """Whether a process has ended; one that only waits to be reaped by its parent has."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True
