"""When a version counts as good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.supervision.probation import (
    FLIP_FLOP_HOPS,
    Hop,
    Served,
    Standing,
    flip_flops,
    has_proved_itself,
    last_good,
    standing,
)

moments = st.floats(0, 10_000)
maybe = st.none() | moments
commits = st.sampled_from("abc")
boots = st.builds(Served, commits, moments, maybe, st.booleans(), st.integers(0, 5), maybe)
hops = st.builds(Hop, moments, commits, commits, st.sampled_from("mn"))


def test_it_takes_the_whole_time_in_one_boot() -> None:
    """599 s are too few, 600 enough; two halves are not a whole."""
    boot = Served("a", since=0.0, probes=1)

    assert not has_proved_itself(boot, 599.0)
    assert has_proved_itself(boot, 600.0)
    halves = [Served("a", 0.0, until=400.0, probes=9), Served("a", 400.0, until=800.0, probes=9)]
    assert standing("a", halves, 1e6) is Standing.ON_PROBATION
    assert standing("a", [*halves, boot], 600.0) is Standing.GOOD


def test_what_dies_or_is_not_well_before_that_is_bad() -> None:
    """After it, the version stays good: it may be the world's fault."""
    assert standing("a", [Served("a", 0.0, until=10.0, died=True, probes=1)], 1e6) is Standing.BAD
    assert standing("a", [Served("a", 0.0, unwell=10.0, probes=1)], 1e6) is Standing.BAD
    assert standing("a", [Served("a", 0.0, until=700.0, died=True, probes=1)], 1e6) is Standing.GOOD
    assert standing("a", [Served("a", 0.0, unwell=700.0, probes=1)], 1e6) is Standing.GOOD
    assert standing("a", [Served("a", 0.0, until=10.0, probes=1)], 1e6) is Standing.ON_PROBATION
    assert standing("b", [Served("a", 0.0, until=10.0, died=True)], 1e6) is Standing.ON_PROBATION


def test_one_that_was_never_asked_has_proved_nothing() -> None:
    """Silence is no health."""
    assert not has_proved_itself(Served("a", 0.0), 1e6)


def test_the_last_good_one_is_the_one_that_proved_itself_last() -> None:
    """Not the one that merely serves."""
    seen = [Served("a", 0.0, 1000.0, probes=1), Served("b", 1000.0, 2000.0, probes=1), Served("c", 2000.0, probes=1)]

    assert [last_good(seen, now) for now in (500.0, 700.0, 1700.0, 2100.0, 2600.0)] == ["", "a", "b", "b", "c"]


@given(st.lists(boots), commits, moments, st.floats(0, 1e5))
def test_good_stays_good(seen: list[Served], commit: str, now: float, later: float) -> None:
    """Whatever is seen later, and however late it is."""
    if standing(commit, seen, now) is Standing.GOOD:
        assert standing(commit, seen, now + later) is Standing.GOOD
        assert standing(last_good(seen, now), seen, now) is Standing.GOOD


@given(st.lists(boots), commits, moments, moments)
def test_no_boot_makes_another_one_good(seen: list[Served], commit: str, now: float, seconds: float) -> None:
    """Good needs one boot that would do alone."""
    good = standing(commit, seen, now, seconds) is Standing.GOOD

    assert good == any(standing(commit, [boot], now, seconds) is Standing.GOOD for boot in seen)


def turns(count: int, main: str = "m", apart: float = 10.0) -> list[Hop]:
    return [Hop(each * apart, "ab"[each % 2], "ba"[each % 2], main) for each in range(count)]


def test_turns_without_progress_are_seen() -> None:
    """More than three in ten minutes; a main that moved, a longer time, or other commits are none."""
    assert flip_flops(turns(FLIP_FLOP_HOPS), 100.0) == frozenset()
    assert flip_flops(turns(FLIP_FLOP_HOPS + 1), 100.0) == {"a", "b"}
    assert flip_flops(turns(FLIP_FLOP_HOPS + 1, apart=300.0), 900.0) == frozenset()
    assert flip_flops([*turns(FLIP_FLOP_HOPS + 1), Hop(50.0, "b", "a", "n")], 100.0) == frozenset()
    assert (
        flip_flops([Hop(1.0, "a", "b", "m"), Hop(2.0, "b", "c", "m"), Hop(3.0, "c", "a", "m")] * 2, 9.0) == frozenset()
    )
    assert flip_flops([Hop(1.0, "a", "a", "m")] * 9, 9.0) == frozenset()


@given(st.lists(hops).map(lambda seen: sorted(seen, key=lambda hop: hop.at)), moments)
def test_only_commits_that_hopped_take_turns(seen: list[Hop], now: float) -> None:
    """Never one alone; and never with few hops."""
    found = flip_flops(seen, now)

    assert len(found) != 1
    assert found <= {commit for hop in seen for commit in (hop.before, hop.after)}
    assert not found or len(seen) > FLIP_FLOP_HOPS
