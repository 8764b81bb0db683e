"""Snapshots of the mind: when one is due, and which go."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from infra.keep.mind.snapshots import DAILY, KEPT, POST_FAILURE, PRE_MODIFICATION, SCHEDULED, Snapshot, due, snapshot_of

DAY = 86_400.0
START = datetime(2026, 1, 31, 10, tzinfo=UTC).timestamp()


def _step(there: list[Snapshot], tip: str, now: float) -> list[Snapshot]:
    """What is there after one look."""
    make, prune = due(there, tip, now, {})
    assert not set(make) & set(prune)
    return [each for each in [*there, *make] if each not in prune]


def _of(kind: str, there: list[Snapshot]) -> list[str]:
    return [each.name for each in there if each.kind == kind]


def test_a_year_of_changing_days_leaves_seven_four_and_twelve() -> None:
    """One each day, week and month, the newest are kept; a second look on the same day does nothing."""
    there = list[Snapshot]()
    for day in range(400):
        there = _step(there, f"{day:040x}", START + day * DAY)
        assert due(there, "f" * 40, START + day * DAY + 60, {}) == ([], [])
    assert [len(_of(kind, there)) for kind in SCHEDULED] == [7, 4, 12]
    assert _of(DAILY, there)[-1] == "daily/2027-03-06T10-00-00Z"


def test_what_has_not_changed_is_not_kept_again_and_a_down_time_costs_one() -> None:
    """A mind at rest makes no snapshots; after a month without a watcher there is one more of each kind, not thirty."""
    there = _step([], "a" * 40, START)
    assert len(there) == 3
    assert _step(there, "a" * 40, START + 3 * DAY) == there
    assert len(_step(there, "b" * 40, START + 40 * DAY)) == 6


@given(st.lists(st.tuples(st.floats(-400 * DAY, 400 * DAY), st.integers(0, 3)), max_size=40))
def test_whatever_the_clock_does_looks_settle(moves: list[tuple[float, int]]) -> None:
    """With a clock that jumps either way: never more than are kept, a second look changes nothing, and the newest
    content that was due is there."""
    there, now = list[Snapshot](), START
    for by, tip in moves:
        now += by
        there = _step(there, f"{tip:040x}", now)
        assert due(there, f"{tip:040x}", now, {}) == ([], [])
        assert all(len(_of(kind, there)) == len(set(_of(kind, there))) <= KEPT[kind] for kind in SCHEDULED)


def test_what_is_kept_beside_changes_is_bounded_too() -> None:
    many = [snapshot_of(PRE_MODIFICATION, START + at, "a" * 40, "x") for at in range(30)]
    assert _of(PRE_MODIFICATION, _step(many, "a" * 40, START + 60)) == [each.name for each in many[-20:]]


def test_before_a_change_the_mind_is_kept_once() -> None:
    """Of one state of the mind one is enough, however often the agent hops meanwhile."""

    def beside(there: list[Snapshot], kind: str, tip: str) -> list[Snapshot]:
        make, _ = due(there, tip, START + 9, {kind: "improve@0123456789ab"})
        return [each for each in make if each.kind == kind]

    (first,) = beside([], PRE_MODIFICATION, "a" * 40)
    assert first.reason == "pre-modification: improve@0123456789ab"
    assert beside([first], PRE_MODIFICATION, "a" * 40) == []
    assert beside([first._replace(name=f"{first.name[:-3]}00Z")], PRE_MODIFICATION, "b" * 40)
    assert beside([first], POST_FAILURE, "a" * 40)
