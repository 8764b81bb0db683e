"""How fast supervision is simulated (the real `decide` in a played world), and which state meets which event in it."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from bench.stamps import progress
from bench.tables import Figure, Table, Verdict
from infra.keep.supervision.decide.events import Launched
from tests.keep.supervision.simulation import play, possible
from tests.keep.supervision.test_simulation import SEEDS

YEARS = 0.15
"""Of each world here. The tests play a year of each."""


def run(directory: Path, rounds: int | None) -> Figure:
    worlds = list(SEEDS)[: rounds or len(SEEDS)]
    seen: Counter[str] = Counter()
    events, launches = 0, 0
    began, cpu_began = time.perf_counter(), time.process_time()
    for seed in worlds:
        progress("simulated", f"world {seed + 1} of {len(worlds)}")
        world = play(seed, YEARS)
        events += world.count
        seen += world.seen
        launches += sum(count for name, count in world.seen.items() if name.endswith(f" {Launched.__name__}"))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    years = YEARS * len(worlds)
    can = possible()
    met = {(phase, kind) for phase, _, kind in (each.partition(" ") for each in seen)}
    rows = (
        ("simulated years", f"{years:g}"),
        ("events", f"{events:,}"),
        ("launches", f"{launches:,}"),
        ("events for each second of a processor", f"{events / cpu:,.0f}"),
        ("events for each second on the wall", f"{events / took:,.0f}"),
        ("seconds of a processor for each simulated year", f"{cpu / years:.1f}"),
        ("simulated years in each run of the tests", f"{len(SEEDS)}"),
        ("pairs of a phase and an event that can meet", f"{len(can)}"),
        ("of them played here", f"{len(met & can)}"),
    )
    missing = sorted(f"{phase} {kind}" for phase, kind in can - met)
    beyond = sorted(f"{phase} {kind}" for phase, kind in met - can)
    notes = [
        f"{what}: {', '.join(pairs)}" for what, pairs in (("not played", missing), ("unheard of", beyond)) if pairs
    ]
    table = Table(f"years of supervision, simulated ({len(worlds)} worlds)", ("", ""), rows, tuple(_wrapped(notes)))
    as_fast = years * 365 * 86400 / cpu / 1e6
    speed = f"{events / cpu:,.0f} events a second, {as_fast:,.2f} million times as fast as life"
    covered = f"{len(met & can)} of {len(can)} pairs of phase and event met"
    return Figure((table,), (Verdict(None, f"{speed}; no goal, shown"), Verdict(not missing, f"{covered}; goal all")))


def _wrapped(notes: list[str], width: int = 116) -> list[str]:
    lines: list[str] = []
    for note in notes:
        line = ""
        for word in note.split(", "):
            if line and len(line) + len(word) > width:
                lines.append(f"{line},")
                line = ""
            line = f"{line}, {word}" if line else word
        lines.append(line)
    return lines
