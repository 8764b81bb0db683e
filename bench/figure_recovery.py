"""The first statement of a version that cannot live → somebody else serves, seen to be well through both doors: main
after a branch, the last good main after a main, and safe mode after a main when nothing was ever good.

What main is led again for, and how often, is the ladder's; a boot's time is cut to two seconds, because that is all
that a version which says SUCCESS and answers nobody can take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from bench import bodies
from bench.scene import WatchedAgent, within
from bench.stamps import PATIENCE_SECONDS, BareStart, now, progress
from bench.tables import WORST_HEAD, Figure, Table, Verdict, milliseconds, quantile, spread, worst_row
from infra.shared import watcher_file

ROUNDS = dict(zip(bodies.BAD, (35, 35, 20, 10), strict=True))
"""Of each way to be bad: a hundred in all, fewer of those that take long."""
SAFE_ROUNDS = 3
BRANCH = "next"
SETTINGS = "limits: {{grace_seconds: 0.2, boot_seconds: {boot}, probation_seconds: {probation}}}\n"
Took = dict[str, list[float]]


def run(directory: Path, rounds: int | None) -> Figure:
    wanted = {way: min(many, rounds or many) for way, many in ROUNDS.items()}
    few = {way: min(many, SAFE_ROUNDS) for way, many in wanted.items()}
    with contextlib.ExitStack() as cleanup:
        bare = BareStart(directory, ("-E", "-s"))
        cleanup.callback(bare.close)
        started: list[float] = []
        measured = []
        for number, (title, measure, many) in enumerate(
            (
                ("a bad branch -> main serves", _branches, wanted),
                ("a bad main -> the last good main serves", _mains, wanted),
                ("a bad main, and nothing was ever good -> safe mode serves", _newborns, few),
            )
        ):
            started += [bare.measure() for _ in range(5)]
            measured.append((title, measure(directory / f"agent{number}", cleanup, many)))
            started += [bare.measure() for _ in range(5)]
    tables = tuple(
        Table(
            f"{title} (from the bad one's first statement)",
            WORST_HEAD,
            tuple(worst_row(way, values, started) for way, values in took.items()),
            _NOTES[title],
        )
        for title, took in measured
    )
    return Figure(tables, tuple(_shown(title, took, started) for title, took in measured))


_NOTES = {
    "a bad branch -> main serves": (
        "Serving: it answered the watcher for itself, through both doors; seen to within 10 ms. The ratio is to a bare",
        "fork+exec of the interpreter. The time for a boot is 2 s here (default: 60 s); the last way takes all of it.",
    ),
    "a bad main -> the last good main serves": (
        "A main is led twice before it is pinned; one that has served, three times, with a second in between.",
    ),
    "a bad main, and nothing was ever good -> safe mode serves": (
        "Each round is a watcher that begins, with its doors; the time for a boot is 3 s here.",
    ),
}


def _shown(title: str, took: Took, started: list[float]) -> Verdict:
    every = sorted(value for values in took.values() for value in values)
    bare = spread(started).median
    p95 = quantile(every, 0.95)
    numbers = f"median {milliseconds(spread(every).median)} ms, p95 {milliseconds(p95)} ms, most"
    return Verdict(
        None,
        f"{title}: {numbers} {milliseconds(every[-1])} ms of {len(every)} rounds "
        f"(a bare fork+exec: {milliseconds(bare)} ms); no goal, shown",
    )


def _in_turn(title: str, rounds: dict[str, int], one: Callable[[str], float]) -> Took:
    took: Took = {way: [] for way in rounds}
    most = max(rounds.values())
    for number in range(most):
        progress("recovery", f"{title}, round {number + 1} of {most}")
        for way, seconds in took.items():
            if number < rounds[way]:
                seconds.append(one(way))
    return took


def _branches(directory: Path, cleanup: contextlib.ExitStack, rounds: dict[str, int]) -> Took:
    agent = WatchedAgent(directory, branches=(BRANCH,), settings=SETTINGS.format(boot=2, probation=600))
    cleanup.callback(agent.close)
    agent.start()

    def one(way: str) -> float:
        agent.next_version(BRANCH, bodies.BAD[way])
        return _replaced(agent, BRANCH, watcher_file.MAIN_LEVEL)

    return _ended(agent, _in_turn("branch", rounds, one))


def _mains(directory: Path, cleanup: contextlib.ExitStack, rounds: dict[str, int]) -> Took:
    agent = WatchedAgent(directory, settings=SETTINGS.format(boot=2, probation=0.2))
    cleanup.callback(agent.close)
    agent.start()
    within(PATIENCE_SECONDS, lambda: agent.state().known_good, "a good version")

    def one(way: str) -> float:
        agent.next_main(bodies.BAD[way])
        return _replaced(agent, "main", watcher_file.GOOD_LEVEL)

    return _ended(agent, _in_turn("main", rounds, one))


def _newborns(directory: Path, cleanup: contextlib.ExitStack, rounds: dict[str, int]) -> Took:
    agent = WatchedAgent(directory, settings=SETTINGS.format(boot=3, probation=600))
    cleanup.callback(agent.close)

    def one(way: str) -> float:
        agent.next_main(bodies.BAD[way])
        agent.launch()
        first = agent.stamps.next("first", f"main, which {way}")
        agent.serves_at(watcher_file.SAFE_LEVEL, "")
        seconds = now() - first.seconds
        agent.stop()
        agent.forget()
        return seconds

    return _in_turn("safe mode", rounds, one)


def _replaced(agent: WatchedAgent, target: str, level: str) -> float:
    """Have the runner make way for `target`, which is bad, until this level serves again."""
    before = agent.quiet().boot_id
    agent.stamps.forget()
    agent.order(target)
    first = agent.stamps.next("first", f"a bad {target} starting")
    agent.serves_at(level, before)
    return now() - first.seconds


def _ended(agent: WatchedAgent, took: Took) -> Took:
    agent.stop()
    return took
