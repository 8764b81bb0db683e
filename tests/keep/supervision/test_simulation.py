"""Years of supervision, played; `play(SEED, YEARS)` plays one world again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Asked, Decision, Died, Event, Launch, MainSeen, Ready
from infra.keep.watcher_file import Instant, Level, Phase, State
from tests.keep.supervision.simulation import Broken, Decide, play, possible

WORLDS, YEARS = 3, 0.1
LONG_WORLDS = range(10, 20)
YEARS_OF_THE_LONG_ONES = 1.0
MOST_UNMET = 3
"""Of the pairs of a phase and an event that can meet: in one year. All worlds together meet all."""


@pytest.mark.fault("F77")
@pytest.mark.heavy
def test_no_rule_is_broken_in_three_worlds() -> None:
    """One runner at a time, always something due, no request lost or carried out twice, bad versions run a few times
    and no more, good ones never pinned, and never passed over for long; and every event meets every phase it can."""
    worlds = [play(seed, YEARS) for seed in range(WORLDS)]
    assert all(world.count > 100_000 * YEARS for world in worlds)
    assert all(world.told > 100 * YEARS for world in worlds)
    never = possible() - {tuple(each.split(" ")) for world in worlds for each in world.seen}
    assert not never


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_WORLDS)
def test_no_rule_is_broken_in_a_year(seed: int) -> None:
    """The same rules for a year of other worlds, ten years in all."""
    world = play(seed, YEARS_OF_THE_LONG_ONES)
    assert world.count > 100_000
    assert world.told > 100
    never = possible() - {tuple(each.split(" ")) for each in world.seen}
    assert len(never) <= MOST_UNMET, never


def test_the_same_seed_is_the_same_world() -> None:
    """A failure that is told with its seed can be looked at again."""
    one, other = play(7, 0.02), play(7, 0.02)
    assert (one.count, one.now, one.state, one.seen) == (other.count, other.now, other.state, other.seen)
    assert one.seen != play(8, 0.02).seen


def forgetful(state: State, event: Event, now: Instant) -> Decision:
    """Knows nothing of versions that failed."""
    return decide(replace(state, strikes=()), event, now)


def careless(state: State, event: Event, now: Instant) -> Decision:
    """Loses what is asked for while a runner boots."""
    after, actions = decide(state, event, now)
    return (replace(after, request=None) if state.phase is Phase.BOOTING else after), actions


def hasty(state: State, event: Event, now: Instant) -> Decision:
    """Launches main beside a runner that is asked to make way."""
    after, actions = decide(state, event, now)
    return after, [*actions, Launch("main", Level.MAIN, "haste")] if isinstance(
        event, Asked
    ) and state.runner else actions


def repeating(state: State, event: Event, now: Instant) -> Decision:
    """Forgets what it has carried out."""
    after, actions = decide(state, event, now)
    return replace(after, request=state.request) if isinstance(event, Ready) and actions else after, actions


def lazy(state: State, event: Event, now: Instant) -> Decision:
    """Forgets to try again."""
    after, actions = decide(state, event, now)
    return (replace(after, deadline=None) if after.phase is Phase.WAITING else after), actions


def suspicious(state: State, event: Event, now: Instant) -> Decision:
    """Takes an outage for a bad version."""
    return decide(state, event._replace(outage="") if isinstance(event, Died) else event, now)


def vengeful(state: State, event: Event, now: Instant) -> Decision:
    """Blames whoever was killed."""
    return decide(state, event._replace(from_outside=False) if isinstance(event, Died) else event, now)


def patient(state: State, event: Event, now: Instant) -> Decision:
    """Never ends who does not make way."""
    after, actions = decide(state, event, now)
    return replace(after, make_way_by=None), actions


def disobedient(state: State, event: Event, now: Instant) -> Decision:
    """Does not hear what the PM takes back."""
    return decide(state, event._replace(goods=state.goods) if isinstance(event, MainSeen) else event, now)


@pytest.mark.parametrize(
    ("spoiled", "rule"),
    [
        (forgetful, "failed 7 times"),
        (careless, "was lost|is said to be alive"),
        (hasty, "Launch.*with Alive"),
        (lazy, "nothing is due"),
        (repeating, "is carried out again"),
        (suspicious, "good version .* was pinned"),
        (vengeful, "good version .* was pinned"),
        (patient, "does not make way"),
        (disobedient, "stands in for main"),
    ],
)
def test_a_broken_rule_is_found(spoiled: Decide, rule: str) -> None:
    """The control: decisions that are wrong in one thing each do not pass for a year; the seed is told."""
    with pytest.raises(Broken, match=rf"^seed 1, event \d+, at [\d.]+ s: .*({rule})"):
        play(1, 1.0, spoiled)
