"""A signal is written -> first statement of the version that it names, through the real watcher.

The old runner signals and leaves at once, as a real one does. The branch is not rehearsed: that is a run of its own."""

from __future__ import annotations

import random
import time
from pathlib import Path

from bench.supervised import SERVES, StampedAgent, bare_start, started
from bench.tables import Table, goal, ratio, rounds, times

ROUNDS = 25
GOAL = 3.0
BARE, BRANCH, MAIN = "a bare start, no watcher", "to the branch", "to main"


def run(directory: Path, count: int) -> list[Table]:
    dice, back = random.Random(2), list[float]()
    with started(directory / "agent", "hops: 1000") as agent:
        agent.branch("next", SERVES)
        agent.serving()

        def there_and_back(number: int) -> float:
            there = _hop(agent, "next", dice)
            back.append(_hop(agent, "main", dice))
            return there

        took = rounds(count, {BARE: bare_start, BRANCH: there_and_back}, warm=2)
    reached = goal(BRANCH, ratio(took[BRANCH], took[BARE]), GOAL)
    return [times("signal -> first statement of the next version", took | {MAIN: back[2:]}, reached)]


def _hop(agent: StampedAgent, branch: str, dice: random.Random) -> float:
    time.sleep(0.15 + dice.random() * 0.1)  # anywhere between two looks of the watcher
    agent.order(branch)
    signalled = agent.stamps.next("signal", "the old runner signalling")
    first = agent.stamps.next("first", f"{branch} starting")
    agent.serving(branch)
    return first.seconds - signalled.seconds
