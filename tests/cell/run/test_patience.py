"""How long a failed model call is waited for."""

from __future__ import annotations

import pytest

from infra.cell.doors import ModelFailure
from infra.cell.run.patience import MOST_WAIT_SECONDS, OUTAGE_SECONDS, PASSING, PAUSES_SECONDS, next_wait
from infra.shared.conversation import ERROR_TYPES

FOREVER = 1e9


@pytest.mark.parametrize(("asked", "waits"), [(2.0, 2.0), (61.0, 61.0), (1e9, MOST_WAIT_SECONDS), (0.0, 0.0)])
def test_what_the_provider_asks_for_counts_up_to_a_cap(asked: float, waits: float) -> None:
    """Also when it is longer than the pause would be."""
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", asked), FOREVER) == waits


def test_the_first_try_comes_at_once_and_then_pauses_grow() -> None:
    """Until the outage is so long that the run ends, to be resumed later."""
    waits: list[float] = []
    while (wait := next_wait(len(waits), sum(waits), ModelFailure("unavailable", ""), FOREVER)) is not None:
        waits.append(wait)
    assert waits[: len(PAUSES_SECONDS)] == list(PAUSES_SECONDS)
    assert set(waits[len(PAUSES_SECONDS) :]) == {PAUSES_SECONDS[-1]}
    assert OUTAGE_SECONDS - PAUSES_SECONDS[-1] < sum(waits) <= OUTAGE_SECONDS


def test_nothing_is_waited_for_beyond_the_runs_time() -> None:
    """The run ends, and keeps its place."""
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", 10.0), left=10.1) == 10.0
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", 10.0), left=10.0) is None
    assert next_wait(0, 0.0, ModelFailure("rate_limited", "", None), left=-1.0) is None


@pytest.mark.parametrize("kind", sorted(ERROR_TYPES))
def test_what_only_the_pm_can_mend_is_not_waited_for(kind: str) -> None:
    assert (next_wait(0, 0.0, ModelFailure(kind, ""), FOREVER) is None) is (kind not in PASSING)
