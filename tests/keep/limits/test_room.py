"""What may go: the choice over all that could be found."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from infra.keep.limits.room import (
    ASIDE_SECONDS,
    ASIDES,
    DAY,
    QUIET_SECONDS,
    RESCUE_SECONDS,
    RESCUES,
    Clone,
    Found,
    Kind,
    Removal,
    Rescue,
    Thing,
    choose,
    overdue,
)
from infra.keep.limits.values import Bounds

NOW = 1_800_000_000.0
LIMITS = Bounds(branch_dirs=3)
_when = st.floats(NOW - 400 * DAY, NOW + 400 * DAY)
_stays = st.sampled_from(["", "", "it has uncommitted work"])
_clones = st.lists(
    st.builds(Clone, st.sampled_from(["main", "a", "b", "c", "d", "e", "f/g"]), _when, st.booleans(), _stays),
    max_size=6,
    unique_by=lambda clone: clone.branch,
)
_kinds = st.sampled_from([Kind.ASIDE, Kind.LEFTOVER, Kind.LOG, Kind.CACHE])
_things = st.lists(
    st.builds(Thing, _kinds, st.text("xyz", min_size=1, max_size=3), _when, _stays),
    max_size=6,
    unique_by=lambda thing: thing.name,
)


def _some_rescues(many: int, seed: int) -> tuple[Rescue, ...]:
    chance = random.Random(seed)
    return tuple(
        Rescue(f"rescue/{number}", "c", NOW + chance.uniform(-200, 50) * DAY, chance.random() < 0.5)
        for number in range(many)
    )


_rescues = st.builds(_some_rescues, st.integers(0, RESCUES + 30), st.integers(0, 10**6))
_found = st.builds(
    Found,
    st.sampled_from(["main", "a", "f/g", ""]),
    st.booleans(),
    _clones.map(tuple),
    _things.map(tuple),
    _rescues,
)


def _names(removals: list[Removal], kind: Kind) -> set[str]:
    return {removal.name for removal in removals if removal.kind is kind}


@given(_found)
def test_no_work_is_ever_chosen(found: Found) -> None:
    """Never main, never the running branch, never what holds something of its own, never what was touched of late."""
    removals = choose(found, LIMITS, NOW)
    gone = _names(removals, Kind.CLONE)
    assert not gone & {"main", found.running}
    by_name = {clone.branch: clone for clone in found.clones}
    assert all(not by_name[name].stays and NOW - by_name[name].changed >= QUIET_SECONDS for name in gone)
    kept = {thing.name for thing in found.things if thing.stays}
    assert not kept & {removal.name for removal in removals if removal.kind is not Kind.CLONE}
    assert len(removals) == len({(removal.kind, removal.name) for removal in removals})


@given(_found)
def test_no_more_goes_than_is_too_much(found: Found) -> None:
    """While there is room, the count is not undercut; of unmerged clones an older one goes first."""
    removals = choose(found._replace(short=False), LIMITS, NOW)
    gone = _names(removals, Kind.CLONE)
    assert len(gone) <= max(0, len(found.clones) - LIMITS.branch_dirs)
    unmerged = [
        clone
        for clone in found.clones
        if not clone.merged
        and not clone.stays
        and clone.branch not in ("main", found.running)
        and NOW - clone.changed >= QUIET_SECONDS
    ]
    went = [clone.changed for clone in unmerged if clone.branch in gone]
    stayed = [clone.changed for clone in unmerged if clone.branch not in gone]
    assert not went or not stayed or max(went) <= min(stayed)
    assert not _names(removals, Kind.CACHE) | _names(removals, Kind.LOG)


@given(_found)
def test_short_room_frees_at_least_as_much(found: Found) -> None:
    """What goes anyway goes then, too."""
    anyway = set(choose(found._replace(short=False), LIMITS, NOW))
    assert anyway <= set(choose(found._replace(short=True), LIMITS, NOW))


@given(_rescues)
def test_rescues_go_only_when_they_are_many_and_old(rescues: tuple[Rescue, ...]) -> None:
    """Both; what another branch has too goes first, then the oldest, and its commit is named."""
    removals = choose(Found("main", True, rescues=rescues), LIMITS, NOW)
    gone = [rescue for rescue in rescues if rescue.name in _names(removals, Kind.RESCUE)]
    assert len(gone) <= max(0, len(rescues) - RESCUES)
    assert all(NOW - rescue.made >= RESCUE_SECONDS for rescue in gone)
    assert all(removal.commit == "c" for removal in removals)
    stayed = [rescue for rescue in rescues if rescue not in gone and NOW - rescue.made >= RESCUE_SECONDS]
    if gone and stayed:
        assert max((not each.elsewhere, each.made) for each in gone) <= min(
            (not each.elsewhere, each.made) for each in stayed
        )


def test_merged_clones_go_first_and_the_newest_stay() -> None:
    """Of five with a limit of three, two go."""
    clones = (
        Clone("main", NOW - 90 * DAY, True, ""),
        Clone("old", NOW - 80 * DAY, False, ""),
        Clone("older", NOW - 85 * DAY, False, "it has uncommitted work"),
        Clone("merged", NOW - 5 * DAY, True, ""),
        Clone("new", NOW - 2 * DAY, False, ""),
    )
    assert [removal.name for removal in choose(Found("main", False, clones), LIMITS, NOW)] == ["merged", "old"]
    assert [removal.name for removal in choose(Found("main", False, clones), Bounds(), NOW)] == []
    assert [removal.name for removal in choose(Found("main", True, clones), Bounds(), NOW)] == ["merged"]


def test_asides_stay_two_weeks_and_the_last_five_longer() -> None:
    """When room is short, a day."""
    asides = tuple(Thing(Kind.ASIDE, str(days), NOW - days * DAY) for days in range(0, 40, 4))
    gone = _names(choose(Found("main", False, things=asides), LIMITS, NOW), Kind.ASIDE)
    assert gone == {"20", "24", "28", "32", "36"}
    assert ASIDE_SECONDS == 14 * DAY
    assert len(asides) - len(gone) == ASIDES
    gone = _names(choose(Found("main", True, things=asides), LIMITS, NOW), Kind.ASIDE)
    assert gone == {str(days) for days in range(4, 40, 4)}


def test_the_pm_is_told_what_stays_though_it_is_too_much() -> None:
    """By name and with the reason; not while there are few."""
    clones = tuple(Clone(f"b{number}", NOW - number * DAY, False, "it has uncommitted work") for number in range(4))
    assert overdue(Found("main", False, clones), LIMITS, NOW)[0] == "the clone of b3: it has uncommitted work"
    assert overdue(Found("main", False, clones[:3]), LIMITS, NOW) == []
    asides = tuple(Thing(Kind.ASIDE, f"x{number}", NOW - number * DAY, "why") for number in range(6))
    assert overdue(Found("main", False, things=asides), LIMITS, NOW) == ["x5: why"]
