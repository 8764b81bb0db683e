"""When to try again after failures in a row: at once, then 1, 2, 4 … 60 s, for ever."""

from __future__ import annotations

LONGEST_SECONDS = 60.0
HEALTHY_SECONDS = 600.0
"""A runner that served so long has earned a fresh count."""
JITTER = 0.1


def delay_seconds(failures: int, seed: str) -> float:
    """Delay before the next try after `failures` (≥ 1) in a row; `seed` (hex digits) picks the jitter."""
    if failures <= 1:
        return 0.0
    base = min(2.0 ** min(failures - 2, 10), LONGEST_SECONDS)
    return base * (1.0 + JITTER * int(seed[:4] or "0", 16) / 0xFFFF)


def worth_reporting(failures: int) -> bool:
    """The PM hears of failure 1, 2, 4, 8 …: a crash loop must not flood COMMS.md."""
    return failures > 0 and failures & (failures - 1) == 0
