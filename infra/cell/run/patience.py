"""The model as a run asks it: a call that fails for a passing reason is made again, and the conversation waits.

The runner alone has this patience. Within one call the model door only changes from one of the PM's models to the next
(`keep/model_door/rotation`); when none of them answers, that call has failed."""

from __future__ import annotations

from infra.cell.doors import ModelFailure

PASSING = frozenset(["rate_limited", "unavailable", "provider_error"])
"""Types of `conversation.ERROR_TYPES` that may be gone at the next try. All others are for the PM to mend."""
PAUSES_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Before each further try; the last of them repeats."""
MOST_WAIT_SECONDS = 300.0
"""Whatever the provider asks for."""
OUTAGE_SECONDS = 900.0
"""After so much waiting in a row the run ends, to be resumed later: an outage that long is worth a report."""


def next_wait(failures: int, waited: float, failure: ModelFailure, left: float) -> float | None:
    """Seconds until the call that has just failed is made again; None: not by this run now.

    `failures` before this one in a row, and the seconds `waited` for them; `left`: until the run's time is over."""
    if failure.type not in PASSING:
        return None
    pause = PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)]
    wait = min(max(pause, failure.retry_after_seconds or 0.0), MOST_WAIT_SECONDS)
    return wait if wait < left and waited + wait <= OUTAGE_SECONDS else None
