"""`python -m bench [NAME…]`: run all or some of the benchmarks, then print their tables and a summary."""

from __future__ import annotations

import argparse
import functools
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import (
    figure_container,
    figure_discovery,
    figure_discovery_score,
    figure_examination,
    figure_handover,
    figure_idle,
    figure_long_life,
    figure_mind,
    figure_pages,
    figure_push,
    figure_recovery,
    figure_rehearsal,
    figure_restart,
    figure_seal_cost,
    figure_start,
    figure_step,
    figure_talk,
    figure_web,
    figure_wire,
)
from bench.peers import Missing, program
from bench.sealed.rootless import Unprepared
from bench.stamps import progress
from bench.tables import Figure, Verdict, render, summary
from infra.shared.exit_codes import Exit

IDLE_SECONDS = 60.0
PEERS = {
    "restart": ("supervisord", "circusd", "s6-supervise", "runsv"),
    "step": ("mini",),
    "wire": ("mini",),
    "talk": ("mini",),
    "pages": ("trafilatura",),
    "idle": ("supervisord",),
}
"""Programs that a figure needs beside ours; looked for before anything is measured."""


def main(words: list[str]) -> int:
    watcher = ("start", "handover", "restart", "recovery", "longlife", "rehearsal", "idle")
    alone = (*watcher, "examination", "step", "wire", "talk", "web", "pages", "mind", "push", "score")
    names = (*alone, "container", "seal", "discovery")
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure minifram beside its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(names)}; default: all")
    parser.add_argument("--rounds", type=int, help="rounds of each figure; default: each figure's own number")
    parser.add_argument(
        "--idle-seconds", type=float, default=IDLE_SECONDS, help="of idle and longlife; default %(default)g"
    )
    given = parser.parse_args(words)
    unknown = [name for name in given.names if name not in names]
    if unknown:
        parser.error(f"no such figure: {unknown[0]!r}; the figures are {', '.join(names)}")
    if (given.rounds is not None and given.rounds < 1) or given.idle_seconds <= 0:
        parser.error("--rounds and --idle-seconds must be above 0")
    chosen = list(dict.fromkeys(given.names or names))
    try:
        for name in chosen:
            for peer in PEERS.get(name, ()):
                program(peer)
    except Missing as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return Exit.NOT_FOUND
    figures: dict[str, Callable[[Path], Figure]] = {
        "start": functools.partial(figure_start.run, rounds=given.rounds),
        "handover": functools.partial(figure_handover.run, rounds=given.rounds),
        "restart": functools.partial(figure_restart.run, rounds=given.rounds),
        "recovery": functools.partial(figure_recovery.run, rounds=given.rounds),
        "longlife": functools.partial(figure_long_life.run, seconds=given.idle_seconds),
        "rehearsal": functools.partial(figure_rehearsal.run, rounds=given.rounds),
        "examination": functools.partial(figure_examination.run, rounds=given.rounds),
        "step": functools.partial(figure_step.run, rounds=given.rounds),
        "wire": functools.partial(figure_wire.run, rounds=given.rounds),
        "talk": figure_talk.run,
        "web": functools.partial(figure_web.run, rounds=given.rounds),
        "pages": functools.partial(figure_pages.run, rounds=given.rounds),
        "mind": functools.partial(figure_mind.run, rounds=given.rounds),
        "idle": functools.partial(figure_idle.run, seconds=given.idle_seconds),
        "push": functools.partial(figure_push.run, rounds=given.rounds),
        "score": functools.partial(figure_discovery_score.run, rounds=given.rounds),
        "container": functools.partial(figure_container.run, rounds=given.rounds),
        "seal": functools.partial(figure_seal_cost.run, rounds=given.rounds),
        "discovery": functools.partial(figure_discovery.run, rounds=given.rounds),
    }
    for number in (signal.SIGTERM, signal.SIGINT):  # an orderly exit, so that what was started is ended
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    began = time.monotonic()
    load = os.getloadavg()[0]
    done: list[tuple[str, Figure]] = []
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="mf-bench-") as directory:
            try:
                done.append((name, figures[name](Path(directory))))
            except Unprepared as missing:  # only for what needs podman
                done.append((name, left_out(name, missing)))
        progress("", "")
        for table in done[-1][1].tables:
            print(render(table), end="\n\n", flush=True)
    print(summary(done))
    print(f"{surroundings(load)}; {time.monotonic() - began:.0f} s in all")
    return Exit.OK


def left_out(name: str, missing: Unprepared) -> Figure:
    """A machine without podman still gets the other figures."""
    progress("", "")
    print(f"bench: {name} is left out: {missing}", file=sys.stderr, flush=True)
    return Figure((), (Verdict(None, f"left out: {missing}"),))


def surroundings(load: float) -> str:
    where = tempfile.gettempdir()
    kind = subprocess.run(["stat", "-f", "-c", "%T", where], capture_output=True, text=True, check=True).stdout.strip()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"{python}, Linux {platform.release()}, {os.cpu_count()} cores, load {load:.1f} at the start and "
        f"{os.getloadavg()[0]:.1f} at the end, {where} on {kind}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
