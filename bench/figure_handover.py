"""A signal file renamed into place → the first statement of the branch that it names, through the real watcher.

The old runner signals and leaves at once. Where the time goes is taken from a second, shorter series with a watcher
whose steps are timed, because timing costs something as well."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import time
from pathlib import Path

from bench import timed_watcher
from bench.scene import WatchedAgent
from bench.stamps import BareStart, progress
from bench.tables import TIMES_HEAD, Figure, Table, at_most, distance, milliseconds, spread, times_row
from infra.shared.branches import MAIN

ROUNDS = 25
TIMED_ROUNDS = 8
BRANCH = "next"
SETTLE_SECONDS = 0.15
SETTINGS = "limits: {hops: 1000}\n"
GOAL = 3.0

FIRST_WAIT = "until the watcher wakes up"
LATER_WAIT = "until the old runner is gone"
INTERPRETER = "interpreter start, to the first statement"
OTHER = "all else in the watcher"


def run(directory: Path, rounds: int | None) -> Figure:
    dice = random.Random(2)
    to_branch: list[float] = []
    to_main: list[float] = []
    started: list[float] = []
    with contextlib.ExitStack() as cleanup:
        bare = BareStart(directory, ("-E", "-s"))
        cleanup.callback(bare.close)
        agent = WatchedAgent(directory / "agent", branches=(BRANCH,), settings=SETTINGS)
        cleanup.callback(agent.close)
        agent.start()
        _hop(agent, BRANCH, dice)  # compiles the branch's modules: that is done once, before its first launch
        _hop(agent, MAIN, dice)
        wanted = rounds or ROUNDS
        for number in range(wanted):
            progress("handover", f"round {number + 1} of {wanted}")
            if number % 2:
                started.append(bare.measure())
            to_branch.append(_seconds(_hop(agent, BRANCH, dice)))
            to_main.append(_seconds(_hop(agent, MAIN, dice)))
            if not number % 2:
                started.append(bare.measure())
        agent.stop()
        steps = _timed_steps(directory, cleanup, min(TIMED_ROUNDS, wanted), dice)
    rows = (
        times_row("bare fork+exec of the interpreter, to a script's first statement", started),
        times_row("signal renamed -> first statement of the branch", to_branch, started),
        times_row("signal renamed -> first statement of main", to_main, started),
    )
    table = Table(
        "signal file renamed into place -> first statement of the new version (real watcher, runner leaves at once)",
        TIMES_HEAD,
        rows,
        (
            "On its way to main the watcher also brings main's clone in line with the bare repository.",
            "The branch is not rehearsed here: what a rehearsal costs is measured apart.",
        ),
    )
    verdicts = (
        at_most("signal to first line", to_branch, "a bare fork+exec", started, GOAL),
        distance("the same, to main", to_main, "a bare fork+exec", started),
    )
    return Figure((table, steps), verdicts)


def _seconds(moments: tuple[float, float]) -> float:
    return moments[1] - moments[0]


def _hop(agent: WatchedAgent, branch: str, dice: random.Random) -> tuple[float, float]:
    """When the signal was renamed into place, and when the branch's first statement ran."""
    agent.stamps.forget()
    # Anywhere between two looks of the watcher.
    time.sleep(SETTLE_SECONDS + dice.random() * 0.1)
    agent.order(branch)
    signalled = agent.stamps.next("signal", "the old runner signalling")
    first = agent.stamps.next("first", f"{branch} starting")
    agent.serving(branch)
    return signalled.seconds, first.seconds


def _timed_steps(directory: Path, cleanup: contextlib.ExitStack, rounds: int, dice: random.Random) -> Table:
    """Where the time goes on the way to a branch."""
    spans_file = directory / "spans"
    program = (timed_watcher.__file__, str(spans_file))
    agent = WatchedAgent(directory / "timed", branches=(BRANCH,), program=program, settings=SETTINGS)
    cleanup.callback(agent.close)
    agent.start()
    _hop(agent, BRANCH, dice)
    _hop(agent, MAIN, dice)
    parts: dict[str, list[float]] = {}
    wholes = []
    for number in range(rounds):
        progress("handover", f"where the time goes, round {number + 1} of {rounds}")
        signalled, first = _hop(agent, BRANCH, dice)
        _hop(agent, MAIN, dice)
        spans = [timed_watcher.Span(*json.loads(line)) for line in spans_file.read_text().splitlines()]
        for name, seconds in steps_between(spans, signalled, first):
            parts.setdefault(name, []).append(seconds)
        wholes.append(first - signalled)
    agent.stop()
    median = milliseconds(spread(wholes).median)
    title = f"where it goes ({rounds} rounds of a watcher with timed steps; median {median} ms)"
    rows = [
        (name, milliseconds(spread(took).median), f"{len(took) / rounds:g}", f"{sum(took) / sum(wholes):.0%}")
        for name, took in parts.items()
    ]
    return Table(title, ("", "median ms", "a round", "share of all"), tuple(rows))


def steps_between(spans: list[timed_watcher.Span], signalled: float, first: float) -> list[tuple[str, float]]:
    """Steps and their seconds, in order, from the signal to the first statement of the version that it names.

    What the watcher does once the new interpreter runs is not on the way to its first statement and left out."""
    inside = [span for span in sorted(spans) if signalled < span.ended and span.began < first]
    launched = next((span.ended for span in inside if span.name == timed_watcher.LAUNCH), first)
    waits = itertools.chain((FIRST_WAIT,), itertools.repeat(LATER_WAIT))
    found = []
    at, other = signalled, 0.0
    for span in inside:
        if span.ended <= launched:
            other += max(0.0, span.began - at)
            name = next(waits) if span.name == timed_watcher.WAIT else span.name
            found.append((name, span.ended - max(span.began, at)))
            at = span.ended
    return [*found, (INTERPRETER, first - launched), (OTHER, other)]
