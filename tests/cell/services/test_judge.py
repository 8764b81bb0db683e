"""When a service is started again, and what takes too much."""

from __future__ import annotations

from infra.cell.services.judge import (
    PAUSES_SECONDS,
    SETTLED_SECONDS,
    WINDOW_SECONDS,
    Allowance,
    Taken,
    excess,
    pause_after,
)

ALLOWED = Allowance(memory_bytes=100 << 20, processors=0.5)
MIB = 1 << 20


def test_pauses_grow_and_begin_again_after_a_good_while() -> None:
    """For ever: a service is never given up."""
    ends, pauses = 0, []
    for _ in range(len(PAUSES_SECONDS) + 2):
        pause, ends = pause_after(ends, 0.1)
        pauses.append(pause)
    assert pauses == [*PAUSES_SECONDS, PAUSES_SECONDS[-1], PAUSES_SECONDS[-1]]
    assert pause_after(ends, SETTLED_SECONDS) == (PAUSES_SECONDS[0], 1)


def test_all_together_keep_within_what_they_may_take() -> None:
    """The largest is ended; processor time counts over a whole window alone."""
    fits = {"web": Taken(60 * MIB, 20.0), "db": Taken(40 * MIB, 10.0)}
    assert excess(fits, ALLOWED, WINDOW_SECONDS) is None
    assert excess({}, ALLOWED, WINDOW_SECONDS) is None
    name, why = excess(fits | {"db": Taken(41 * MIB, 0.0)}, ALLOWED, 1.0) or ("", "")
    assert (name, "60 MiB" in why, "may take 100" in why) == ("web", True, True)
    busy = fits | {"db": Taken(MIB, 30.0)}
    assert excess(busy, ALLOWED, WINDOW_SECONDS - 1) is None
    name, why = excess(busy, ALLOWED, WINDOW_SECONDS) or ("", "")
    assert (name, "0.50 processors" in why) == ("db", True)
