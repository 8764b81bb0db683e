"""Reports the same problem once and then counts it: the page is part of every prompt, and a problem may be caused on
purpose, without end."""

from __future__ import annotations

from infra.shared.clock import timestamp

QUIET_SECONDS = 3600.0
"""A problem that has not occurred for this long is reported as new."""
MOST_KINDS = 1000


class _Seen:
    def __init__(self, since: float) -> None:
        self.since = self.last = since
        self.count = 0
        self.id = ""


class SameTrouble:
    """How often each kind of problem has occurred since it was last absent for a while."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}  # the one that came about longest ago first

    def again(self, kind: str, wall: float, id: str = "") -> str | None:
        """Count it. What to add to its words (empty the first time), or None when it is not to be told: it is at the
        1st, 2nd, 4th, 8th … time. With the `id` of the time before, it is that time: it could not be told then."""
        seen = self._seen.pop(kind, None)
        if seen is None or not 0 <= wall - seen.last < QUIET_SECONDS:
            seen = _Seen(wall)
        self._seen[kind] = seen
        if len(self._seen) > MOST_KINDS:
            del self._seen[next(iter(self._seen))]
        seen.last = wall
        if not id or id != seen.id:
            seen.count += 1
        seen.id = id
        if seen.count & (seen.count - 1):
            return None
        if seen.count == 1:
            return ""
        return f"It is the same for the {_ordinal(seen.count)} time since {timestamp(seen.since)}."


def _ordinal(number: int) -> str:
    tens, ones = number % 100, number % 10
    return f"{number}{'th' if 10 < tens < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(ones, 'th')}"
