"""kill -9 of a supervised program → the first statement of the one that follows it: the watcher beside its peers.

A peer's victim has run for over a second when it is killed, because runit starts nothing twice within a second. circus
looks at its programs on a beat of its own, so its victim is killed at a random moment of that beat. Ours is killed as
soon as it serves, and goes on all the time as well: then the watcher's own records are held against the kills. What a
second death right after the first costs is a table of its own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

from bench.peers import CIRCUS, CIRCUS_BEAT_SECONDS, KINDS, Peer
from bench.scene import WatchedAgent
from bench.stamps import BareStart, Stamp, now, progress
from bench.tables import TIMES_HEAD, Figure, Table, ahead_of, distance, milliseconds, none_lost, quantile, times_row

ROUNDS = 1000
IN_A_TURN = 40
"""Rounds of ours, then one of each peer: theirs take a second."""
MOST_SECONDS = 240.0
"""After so long no further turn is begun."""
SECOND_DEATHS = 3
SETTLED_SECONDS = 1.2
"""The age of a peer's victim."""
APART_SECONDS = 0.2
"""Between the kills of two peers' victims: they wait while another's program starts."""
SETTINGS = "limits: {probation_seconds: 0.01}\n"
OURS = "minifram's watcher"
SERVES = "the same, until it is seen to be well"
BARE = "bare fork+exec, no supervisor"


class Theirs:
    """A peer with its program."""

    def __init__(self, peer: Peer) -> None:
        self.name = peer.name
        self.stamps = peer.stamps
        peer.start()
        self.alive = peer.stamps.next("first", f"{peer.name} starting its program")


class Ours:
    """An agent whose runner is killed again and again by somebody else, which nobody is to blame for."""

    def __init__(self, agent: WatchedAgent) -> None:
        self._agent = agent
        self.before = ""
        """The boot that was killed last."""
        self.kills = 0
        self.seen: list[float] = []
        agent.start()
        self._alive = agent.stamps.next("first", f"{OURS} starting its runner")

    def killed(self) -> float:
        """Of a runner that serves: seconds to the first statement of the next; then that one serves."""
        killed_at, seconds = self._kill()
        self._agent.serving("main", but=self.before)
        self.seen.append(now() - killed_at)
        return seconds

    def killed_at_once(self) -> float:
        """Of one that has only begun."""
        return self._kill()[1]

    def _kill(self) -> tuple[float, float]:
        self.before = self._agent.state().boot_id
        killed_at = now()
        os.kill(self._alive.pid, signal.SIGKILL)
        self.kills += 1
        self._alive = self._agent.stamps.next("first", f"{OURS} starting its runner again")
        return killed_at, self._alive.seconds - killed_at

    def absolve(self) -> None:
        """Its report is on main, its clone is at main as a life keeps it, and the deaths count for nothing."""
        self._agent.quiet()
        self._agent.pull()
        self._agent.retry()

    def lost(self) -> int:
        """How many of the kills the watcher has no record of."""
        lines = [json.loads(line) for line in Path(self._agent.places.watcher_log).read_text().splitlines()]
        died = [line["boot_id"] for line in lines if line["event"] == "runner.died" and line["how"] == "SIGKILL"]
        launched = [line["boot_id"] for line in lines if line["event"] == "runner.launched"]
        kept = [boot.id for boot in self._agent.state().boots]
        if kept != launched[-len(kept) :]:
            raise RuntimeError(f"watcher.json names the boots {kept}; its log {launched[-len(kept) :]}")
        return max(abs(self.kills - len(set(died))), abs(self.kills + 1 - len(set(launched))))


def run(directory: Path, rounds: int | None) -> Figure:
    dice = random.Random(1)
    wanted = rounds or ROUNDS
    with contextlib.ExitStack() as cleanup:
        bare = BareStart(directory, ("-I",))
        cleanup.callback(bare.close)
        agent = WatchedAgent(directory / "agent", settings=SETTINGS)
        cleanup.callback(agent.close)
        ours, peers = Ours(agent), _peers(directory, cleanup)
        first: dict[str, list[float]] = {name: [] for name in (OURS, *(peer.name for peer in peers), BARE)}
        began = now()
        while len(first[OURS]) < wanted and now() - began < MOST_SECONDS:
            progress("restart", f"round {len(first[OURS]) + 1} of {wanted}")
            first[BARE] += [bare.measure() for _ in range(2)]
            for _ in range(min(IN_A_TURN, wanted - len(first[OURS]))):
                first[OURS].append(ours.killed())
                ours.absolve()
            by = len(first[BARE]) // 2 % len(peers)
            for name, seconds in _killed(peers[by:] + peers[:by], dice).items():
                first[name].append(seconds)
        second: dict[str, list[float]] = {OURS: [], **{peer.name: [] for peer in peers}}
        for _ in range(min(SECOND_DEATHS, wanted)):
            ours.killed_at_once()
            second[OURS].append(ours.killed_at_once())
            agent.serving("main", but=ours.before)
            ours.absolve()
            for peer in peers:
                _settle(peer.alive)
                _kill(peer)
                second[peer.name].append(_kill(peer))
        lost, kills = ours.lost(), ours.kills
    return _figure(first, second, ours.seen, lost, kills)


def _peers(directory: Path, cleanup: contextlib.ExitStack) -> list[Theirs]:
    found = []
    for number, (name, prepare) in enumerate(KINDS.items()):
        peer = Peer(name, directory / f"peer{number}", prepare)
        cleanup.callback(peer.close)
        found.append(Theirs(peer))
    return found


def _killed(peers: list[Theirs], dice: random.Random) -> dict[str, float]:
    """One round of each, the kills a little apart: what is started writes its moment down itself."""
    killed_at = {}
    for peer in sorted(peers, key=lambda peer: peer.name == CIRCUS):
        _settle(peer.alive, dice.random() * CIRCUS_BEAT_SECONDS if peer.name == CIRCUS else 0.0)
        killed_at[peer.name] = now()
        os.kill(peer.alive.pid, signal.SIGKILL)
        time.sleep(APART_SECONDS)
    for peer in peers:
        peer.alive = peer.stamps.next("first", f"{peer.name} starting its program again")
    return {peer.name: peer.alive.seconds - killed_at[peer.name] for peer in peers}


def _settle(victim: Stamp, more_seconds: float = 0.0) -> None:
    time.sleep(max(0.0, victim.seconds + SETTLED_SECONDS - now()) + more_seconds)


def _kill(peer: Theirs) -> float:
    killed_at = now()
    os.kill(peer.alive.pid, signal.SIGKILL)
    peer.alive = peer.stamps.next("first", f"{peer.name} starting its program again")
    return peer.alive.seconds - killed_at


def _figure(
    first: dict[str, list[float]], second: dict[str, list[float]], seen: list[float], lost: int, kills: int
) -> Figure:
    ours = first[OURS]
    rows = [times_row(name, values, ours) for name, values in first.items()]
    rows.insert(1, times_row(SERVES, seen, ours))
    p95 = milliseconds(quantile(sorted(ours), 0.95))
    restarts = Table(
        "kill -9 of the supervised program -> first statement of the next one",
        TIMES_HEAD,
        tuple(rows),
        (
            "Ours first looks over the git checkout and notes the attempt on the disk, then starts a module of it;",
            "the others start a file. circus looks once a second here (default: every 5 s); the kill comes anywhere",
            "in between. s6 waits for a second after each death, runit only if the program had run for less than one.",
            f"Ours is killed as soon as it serves (95 of 100 are back within {p95} ms), and absolved by the PM after",
            "each round: its version would be pinned, as a third death in a row is no accident. A peer has one round",
            f"for each {IN_A_TURN} of ours, because most of theirs take a second.",
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
        distance("kill -9 to relaunch", ours, BARE, first[BARE]),
        none_lost("restarts", lost, kills, "the kills against watcher.json and the watcher's log"),
    )
    return Figure((restarts, again), verdicts)
