"""kill -9 of a supervised program → the first statement of the one that follows it: the watcher beside its peers.

Each victim has run for over a second when it is killed, because runit starts nothing twice within a second. circus
looks at its programs on a beat of its own, so its victim is killed at a random moment of that beat. What a second
death right after the first costs is a table of its own."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Protocol

from bench.peers import CIRCUS, CIRCUS_BEAT_SECONDS, KINDS, Peer
from bench.scene import WatchedAgent
from bench.stamps import BareStart, Stamp, Stamps, now, progress
from bench.tables import TIMES_HEAD, Figure, Table, ahead_of, distance, times_row

ROUNDS = 20
SECOND_DEATHS = 3
SETTLED_SECONDS = 1.2
"""The age of a victim."""
OURS = "minifram's watcher"
BARE = "bare fork+exec, no supervisor"


class _Subject(Protocol):
    """A supervisor under measurement."""

    name: str
    stamps: Stamps

    def victim(self) -> Stamp:
        """The supervised process that is to be killed."""

    def measured(self, follower: Stamp) -> None:
        """`follower` is what was started last."""


class _Ours:
    """Begins each time with a watcher that remembers no failures: only the first in a row is followed at once."""

    name = OURS

    def __init__(self, agent: WatchedAgent) -> None:
        self.stamps = agent.stamps
        self._agent = agent

    def victim(self) -> Stamp:
        self._agent.start()
        return self.stamps.next("first", f"{OURS} starting its runner")

    def measured(self, follower: Stamp) -> None:
        self._agent.stop()
        self._agent.forget()


class _Theirs:
    """Goes on all the time."""

    def __init__(self, peer: Peer) -> None:
        self.name = peer.name
        self.stamps = peer.stamps
        peer.start()
        self._alive = peer.stamps.next("first", f"{peer.name} starting its program")

    def victim(self) -> Stamp:
        return self._alive

    def measured(self, follower: Stamp) -> None:
        self._alive = follower


def run(directory: Path, rounds: int | None) -> Figure:
    dice = random.Random(1)
    wanted = rounds or ROUNDS
    with contextlib.ExitStack() as cleanup:
        bare = BareStart(directory, ("-I",))
        cleanup.callback(bare.close)
        subjects = _subjects(directory, cleanup)
        first: dict[str, list[float]] = {name: [] for name in (*(subject.name for subject in subjects), BARE)}
        second: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        for number in range(wanted):
            progress("restart", f"round {number + 1} of {wanted}")
            first[BARE].append(bare.measure())
            by = number % len(subjects)
            for subject in subjects[by:] + subjects[:by]:
                victim = subject.victim()
                _settle(victim, dice.random() * CIRCUS_BEAT_SECONDS if subject.name == CIRCUS else 0.0)
                seconds, follower = _kill(victim, subject)
                first[subject.name].append(seconds)
                if number < SECOND_DEATHS:
                    seconds, follower = _kill(follower, subject)
                    second[subject.name].append(seconds)
                subject.measured(follower)
    return _figure(first, second)


def _subjects(directory: Path, cleanup: contextlib.ExitStack) -> list[_Subject]:
    agent = WatchedAgent(directory / "agent")
    cleanup.callback(agent.close)
    subjects: list[_Subject] = [_Ours(agent)]
    for number, (name, prepare) in enumerate(KINDS.items()):
        peer = Peer(name, directory / f"peer{number}", prepare)
        cleanup.callback(peer.close)
        subjects.append(_Theirs(peer))
    return subjects


def _settle(victim: Stamp, more_seconds: float) -> None:
    time.sleep(max(0.0, victim.seconds + SETTLED_SECONDS - now()) + more_seconds)


def _kill(victim: Stamp, subject: _Subject) -> tuple[float, Stamp]:
    killed_at = now()
    os.kill(victim.pid, signal.SIGKILL)
    follower = subject.stamps.next("first", f"{subject.name} starting its program again")
    return follower.seconds - killed_at, follower


def _figure(first: dict[str, list[float]], second: dict[str, list[float]]) -> Figure:
    ours = first[OURS]
    restarts = Table(
        "kill -9 of the supervised program -> first statement of the next one (it had run for over 1.2 s)",
        TIMES_HEAD,
        tuple(times_row(name, values, ours) for name, values in first.items()),
        (
            "Ours first looks over the git checkout and notes the attempt on the disk, then starts a module of it;",
            "the others start a file. circus looks once a second here (default: every 5 s); the kill comes anywhere",
            "in between. s6 waits for a second after each death, runit only if the program had run for less than one.",
            "Each of our rounds has a watcher that remembers no failure: it retries at once only the first in a row.",
        ),
    )
    again = Table(
        "the same, killed again at once (its restart was just measured): what keeps a crash loop slow",
        TIMES_HEAD,
        tuple(times_row(name, values, second[OURS]) for name, values in second.items()),
        ("By design: s6 and runit wait for a second here, ours waits 1 s and some jitter after a second failure.",),
    )
    verdicts = (
        ahead_of("kill -9 to relaunch", ours, "supervisord", first["supervisord"]),
        ahead_of("kill -9 to relaunch", ours, "circus", first["circus"]),
        distance("kill -9 to relaunch", ours, "s6-supervise", first["s6-supervise"]),
        distance("kill -9 to relaunch", ours, "runit's runsv", first["runit's runsv"]),
    )
    return Figure((restarts, again), verdicts)
