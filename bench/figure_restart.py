"""kill -9 of a supervised program -> the first statement of the one that follows it: the watcher beside its peers.

Ours looks over the git checkout and notes the attempt on the disk first, then starts a module of it; the others start a
file. All victims have run for over a second when they are killed, as runit starts nothing twice within a second."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from bench.peers import installed
from bench.supervised import KINDS, Stamp, Stamps, Supervisor, bare_start, now, started
from bench.tables import Table, rounds, times

ROUNDS = 20
SETTLED_SECONDS = 1.2


def run(directory: Path, count: int) -> list[Table]:
    there, notes = installed(*KINDS)
    with contextlib.ExitStack() as cleanup:
        ways: dict[str, Callable[[int], float]] = {"a bare start, no supervisor": bare_start}
        ways["minifram's watcher"] = lambda number: _ours(directory / str(number))
        for name in there:
            peer = cleanup.enter_context(contextlib.closing(Supervisor(directory / name, KINDS[name])))
            ways[name] = _theirs(peer)
        return [times("kill -9 -> first statement of the next one", rounds(count, ways), *notes)]


def _ours(directory: Path) -> float:
    with started(directory, "boot_seconds: 20") as agent:  # a new one: a third death in a row is no accident to it
        first = agent.stamps.next("first", "the watcher starting its runner")
        agent.serving()
        return _killed(first, agent.stamps)[0]


def _theirs(peer: Supervisor) -> Callable[[int], float]:
    def measure(number: int) -> float:
        seconds, peer.program = _killed(peer.program, peer.stamps)
        return seconds

    return measure


def _killed(victim: Stamp, stamps: Stamps) -> tuple[float, Stamp]:
    time.sleep(max(0.0, victim.seconds + SETTLED_SECONDS - now()))
    began = now()
    os.kill(victim.pid, signal.SIGKILL)
    following = stamps.next("first", "the program being started again")
    return following.seconds - began, following
