"""When a service is started again, and when it takes more than it may; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from infra.shared.status_file import SERVICES_SHARE

PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 300.0)
"""Before each further start; the last of them repeats."""
SETTLED_SECONDS = 60.0
"""A service that has run so long begins with the first pause again."""
WINDOW_SECONDS = 60.0
"""Over which processor time is counted: a service may work hard for a moment."""


class Allowance(NamedTuple):
    """For all services together."""

    memory_bytes: float
    processors: float


class Taken(NamedTuple):
    """By one service and everything it started."""

    memory_bytes: int
    cpu_seconds: float
    """In the window."""


def allowance(memory_bytes: int, processors: float) -> Allowance:
    """Of a cell that may use so much."""
    return Allowance(memory_bytes * SERVICES_SHARE, processors * SERVICES_SHARE)


def pause_after(ends: int, ran_seconds: float) -> tuple[float, int]:
    """Seconds until the next start, and how many ends in a row count then; `ends`: before this one."""
    ends = 0 if ran_seconds >= SETTLED_SECONDS else ends
    return PAUSES_SECONDS[min(ends, len(PAUSES_SECONDS) - 1)], ends + 1


def excess(taken: Mapping[str, Taken], allowed: Allowance, window_seconds: float) -> tuple[str, str] | None:
    """The service to end, the largest, and why; None when all keep within what they may take."""
    memory = sum(each.memory_bytes for each in taken.values())
    if memory > allowed.memory_bytes:
        name = max(taken, key=lambda each: taken[each].memory_bytes)
        mib = 1 << 20
        return name, (
            f"it took {taken[name].memory_bytes // mib} MiB of memory, and all services together may take "
            f"{round(allowed.memory_bytes / mib)}"
        )
    used = sum(each.cpu_seconds for each in taken.values())
    if window_seconds >= WINDOW_SECONDS and used > allowed.processors * window_seconds:
        name = max(taken, key=lambda each: taken[each].cpu_seconds)
        share = taken[name].cpu_seconds / window_seconds
        return name, (
            f"it took {share:.2f} processors for {window_seconds:.0f} s, and all services together may take "
            f"{allowed.processors:.2f}"
        )
    return None
