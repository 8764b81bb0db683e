"""The rehearsal of a version before it may lead, and where its seconds go: what a hop to a new version waits for.

The candidate is the body that `minifram init` gives an agent; the rehearsal is the program that the watcher runs, which
tells the moments of the small life itself."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from pathlib import Path

from bench.scene import born, places_in
from bench.stamps import BareStart, now, progress
from bench.tables import TIMES_HEAD, Figure, Table, distance, times_row
from infra.keep.rehearsal import verdict
from infra.shared.branches import MAIN

ROUNDS = 10
BEFORE, AFTER = "the rehearsal's own start", "ending all and clearing away"
WHOLE = "whole rehearsal"


def run(directory: Path, rounds: int | None) -> Figure:
    wanted = rounds or ROUNDS
    places = places_in(directory)
    commit = born(places)
    checkout = places.main_checkout
    subprocess.run(["git", "clone", "--quiet", places.remote, checkout], check=True)
    took: dict[str, list[float]] = {WHOLE: []}
    started: list[float] = []
    with contextlib.ExitStack() as cleanup:
        bare = BareStart(directory, ("-E", "-s"))
        cleanup.callback(bare.close)
        for number in range(wanted + 1):
            progress("rehearsal", f"round {number} of {wanted}")
            scratch = directory / f"scratch{number}"
            scratch.mkdir()
            words = verdict.command(checkout, MAIN, commit, str(scratch))
            began = now()
            done = subprocess.run(
                [*words, "--verbose"], cwd="/", env=verdict.environment(), capture_output=True, timeout=120
            )
            seconds = now() - began
            found = verdict.read_verdict(done.stdout, done.returncode)
            if not found.fit:
                raise RuntimeError(f"a newborn agent is not fit: {found.why}\n{found.transcript}")
            if number:  # the first one compiles
                started.append(bare.measure())
                took[WHOLE].append(seconds)
                inside = float(json.loads(done.stdout)["seconds"])
                for name, part in parts(done.stderr.decode(), inside, seconds):
                    took.setdefault(name, []).append(part)
    table = Table(
        "rehearsal of a newborn agent's main, and where it goes (on the way to its last line)",
        TIMES_HEAD,
        tuple(times_row(name, values, took[WHOLE]) for name, values in took.items()),
        ("The candidate is started twice, beside doors of its own; the model plays a script, and costs nothing.",),
    )
    return Figure((table,), (distance("a rehearsal", took[WHOLE], "a bare fork+exec", started),))


_STEP = re.compile(r"^ *(\d+\.\d+) s  (.*)$", re.MULTILINE)


def parts(told: str, inside: float, seconds: float) -> list[tuple[str, float]]:
    """What came before each step that was told, up to it; `inside` is by the rehearsal's own clock."""
    found, at = [(BEFORE, seconds - inside)], 0.0
    for moment, what in _STEP.findall(told):
        name = re.sub(r" ?[0-9a-f]{12,40}| with .*", "", what)
        found.append((f"to {name}", float(moment) - at))
        at = float(moment)
    return [*found, (AFTER, inside - at)]
