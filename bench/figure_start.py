"""Start of the process -> SUCCESS in the boot log: the real runner in a checkout, both doors answering."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from bench.supervised import bare_start, now
from bench.tables import Table, goal, ratio, rounds, times
from tests.cell.cell import Cell, make_template

ROUNDS = 30
GOAL = 7.0
BARE, OURS = "a bare start of the interpreter", "the runner, to SUCCESS"
POLL_SECONDS = 0.0005


def run(directory: Path, count: int) -> list[Table]:
    template, root = directory / "template", directory / "agent"
    template.mkdir()
    make_template(str(template))
    with contextlib.closing(Cell(str(template), str(root))) as cell:
        ways = {BARE: bare_start, OURS: lambda _: _to_success(cell)}
        took = rounds(count, ways, warm=2)
    return [times("start of a process", took, goal("start to SUCCESS", ratio(took[OURS], took[BARE]), GOAL))]


def _to_success(cell: Cell) -> float:
    value = cell.boot()
    began = now()
    runner = cell.start(value)
    while "SUCCESS" not in runner.words():
        if runner.process.poll() is not None:
            raise RuntimeError(f"the runner ended with {runner.process.returncode}: {runner.log()[-2000:]}")
        time.sleep(POLL_SECONDS)
    seconds = now() - began
    runner.process.kill()
    runner.process.wait()
    return seconds
