"""Exit codes of our programs; the values above 63 are those of sysexits(3)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a program of ours ended. 0-8, 75 and 130 are also the `minifram` command's."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_RUNNING = 3
    NOT_FOUND = 4
    """Not found, or not initialised."""
    DENIED = 5
    """Refused by policy."""
    CONFLICT = 6
    """Something else already holds or changed what was asked for: a second watcher ends with this."""
    BUDGET = 7
    FINDINGS = 8
    UNAVAILABLE = 69
    """A door did not answer: says nothing against the code."""
    TRY_AGAIN = 75
    CONFIG = 78
    """Settings or the boot value could not be understood."""
    INTERRUPTED = 130
