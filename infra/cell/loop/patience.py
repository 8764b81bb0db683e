"""How long a run waits before it makes a failed model call again; pure.

The runner alone has this patience. Within one call the model door only changes from one of the PM's models to the next
(`keep/model_door/rotation`); when none of them answers, that call has failed."""

from __future__ import annotations

from typing import NamedTuple

PASSING = frozenset(["rate_limited", "unavailable", "provider_error"])
"""Types of `conversation.ERROR_TYPES` that may be gone at the next try. All others are for the PM to mend."""
PAUSES_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Before each further try; the last of them repeats."""
MOST_WAIT_SECONDS = 300.0
"""Whatever the provider asks for."""
OUTAGE_SECONDS = 900.0
"""After so much waiting in a row the run ends, to be resumed later: an outage that long is worth a report."""
LONG_INTERVAL_TICKS = 6
"""Ticks between two tries of what only the PM can mend: an hour, when the clock ticks every ten minutes."""


class Outage(NamedTuple):
    """Model calls that failed in a row."""

    failures: int = 0
    waited: float = 0.0
    """Seconds, without the calls themselves."""

    def after(self, seconds: float) -> Outage:
        return Outage(self.failures + 1, self.waited + seconds)


def next_wait(outage: Outage, type: str, retry_after: float | None, left: float) -> float | None:
    """Seconds until the call that has just failed is made again; None: not by this run now.

    `outage`: the failures before this one; `retry_after`: what the provider asks for; `left`: until the run's time is
    over."""
    if type not in PASSING:
        return None
    pause = PAUSES_SECONDS[min(outage.failures, len(PAUSES_SECONDS) - 1)]
    wait = min(max(pause, retry_after or 0.0), MOST_WAIT_SECONDS)
    return wait if wait < left and outage.waited + wait <= OUTAGE_SECONDS else None


def next_run_seconds(type: str, retry_after: float | None, tick_seconds: float) -> float:
    """After a run that ended for want of a model: how long until the next one; 0 for the next tick.

    A budget says itself when it can be used again."""
    if type in PASSING:
        return 0.0
    long = LONG_INTERVAL_TICKS * tick_seconds
    return long if retry_after is None else min(long, retry_after)
