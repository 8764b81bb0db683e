"""How times are written for people and logs: UTC, ISO 8601, milliseconds, a Z at the end."""

from __future__ import annotations

import time


def timestamp(wall_seconds: float) -> str:
    """`wall_seconds` since the epoch as `2026-01-31T10:42:12.345Z`."""
    whole, fraction = divmod(round(wall_seconds * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{fraction:03d}Z"


def began(run: str) -> float | None:
    """When a run began, by its name (`2026-01-31T104212.345Z-…`); None when the name does not say."""
    try:
        return moment(f"{run[:13]}:{run[13:15]}:{run[15:17]}") + float(run[17:21])
    except ValueError:
        return None


def moment(text: str) -> float:
    """Seconds since the epoch, of what `timestamp` wrote, to the second. Raises ValueError."""
    import calendar  # it costs more than all else here, and few read times

    return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")))
