"""One step end to end, on loopback: from the last byte of a provider's reply to the last byte of the next request. A
whole agent beside mini-swe-agent, and the bytes that a hundred steps send.

Each command also makes a file, so that no step is without an effect: a run of such steps would be ended. Ours is
answered by a stream, as it asks; the peer, which cannot read one, at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from bench.peers import MINI, installed, mini
from bench.provider import Provider, WholeAgent
from bench.tables import Table, goal, in_turn, ratio, times

ROUNDS = 4
STEPS = 100
COMMANDS = {"true": 0.65, "seq 1 20000": 0.7}
"""And the goal beside the peer."""
MOST_BYTES = 1.2
OURS = "minifram: watcher, doors, runner"


def run(directory: Path, count: int) -> list[Table]:
    there, notes = installed(MINI)
    tables = []
    with Provider() as provider, contextlib.closing(WholeAgent(directory / "agent", provider.url)) as agent:
        players: dict[str, Callable[[], object]] = {name: lambda: mini(directory, provider.url) for name in there}
        players[OURS] = agent.work
        for command, most in COMMANDS.items():
            took: dict[str, list[float]] = {name: [] for name in players}
            sent: dict[str, int] = {}
            for number in range(count + 1):  # the first is for what is imported and compiled at the first use
                for name in in_turn(players, number):
                    provider.play([{"command": f"{command}; true > made-{number}-{at}"} for at in range(STEPS)])
                    players[name]()
                    took[name] += provider.steps() if number else []
                    sent[name] = provider.sent()
            told = "; ".join(f"{name}: {size / 1e6:.2f} MB" for name, size in sent.items())
            beside = [goal(f"beside {MINI}", ratio(took[OURS], took[name]), most) for name in there]
            beside += [goal("bytes beside its", sent[OURS] / sent[name], MOST_BYTES) for name in there]
            tables.append(times(f"one step end to end, `{command}`", took, f"{STEPS} steps: {told}", *beside, *notes))
    return tables
