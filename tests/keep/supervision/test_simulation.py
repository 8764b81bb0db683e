"""Years of supervision, played; `play(SEED, YEARS)` plays one world again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Action, Asked, Decision, Died, Event, Launch, MainSeen, Ready
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


def afterwards(change: Callable[[State, Event, State, list[Action]], State]) -> Decide:
    """Decides right, and remembers something else: of the state before, the event, and what was decided."""

    def decided(state: State, event: Event, now: Instant) -> Decision:
        after, actions = decide(state, event, now)
        return change(state, event, after, actions), actions

    return decided


def hears(kind: type[Event], change: Callable[[State], dict[str, Any]]) -> Decide:
    """Takes such an event for another."""
    return lambda state, event, now: decide(
        state, event._replace(**change(state)) if isinstance(event, kind) else event, now
    )


def hasty(state: State, event: Event, now: Instant) -> Decision:
    after, actions = decide(state, event, now)
    is_early = isinstance(event, Asked) and state.runner
    return after, [*actions, Launch("main", Level.MAIN, "haste")] if is_early else actions


SPOILED: dict[str, tuple[Decide, str]] = {
    "knows no failures": (lambda was, event, now: decide(replace(was, strikes=()), event, now), "failed 7 times"),
    "loses what is asked for while a runner boots": (
        afterwards(lambda was, _, then, did: replace(then, request=None) if was.phase is Phase.BOOTING else then),
        "was lost|is said to be alive",
    ),
    "launches main beside a runner that is asked to make way": (hasty, "Launch.*with Alive"),
    "forgets to try again": (
        afterwards(lambda was, _, then, did: replace(then, deadline=None) if then.phase is Phase.WAITING else then),
        "nothing is due",
    ),
    "forgets what it has carried out": (
        afterwards(
            lambda was, event, then, did: (
                replace(then, request=was.request) if isinstance(event, Ready) and did else then
            )
        ),
        "is carried out again",
    ),
    "takes an outage for a bad version": (hears(Died, lambda was: {"outage": ""}), "good version .* was pinned"),
    "blames whoever was killed": (hears(Died, lambda was: {"from_outside": False}), "good version .* was pinned"),
    "never ends who does not make way": (
        afterwards(lambda was, _, then, did: replace(then, make_way_by=None)),
        "does not make way",
    ),
    "does not hear what the PM takes back": (hears(MainSeen, lambda was: {"goods": was.goods}), "stands in for main"),
}


@pytest.mark.parametrize(("spoiled", "rule"), SPOILED.values(), ids=SPOILED)
def test_a_broken_rule_is_found(spoiled: Decide, rule: str) -> None:
    """The control: decisions that are wrong in one thing each do not pass for a year; the seed is told."""
    with pytest.raises(Broken, match=rf"^seed 1, event \d+, at [\d.]+ s: .*({rule})"):
        play(1, 1.0, spoiled)
