"""Start of the process -> SUCCESS in the boot log: the real runner in a checkout, both doors answering."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from bench.tables import Table, rounds, times
from tests.cell.cell import Cell, make_template

ROUNDS = 30
BARE, OURS, GOAL = "a bare start of the interpreter", "the runner, to SUCCESS", 7.0
STATEMENT = "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))"


def run(directory: Path, count: int) -> list[Table]:
    template = directory / "template"
    template.mkdir()
    make_template(str(template))
    with contextlib.closing(Cell(str(template), str(directory / "agent"))) as cell:
        ways = {BARE: bare_start, OURS: lambda _: _to_success(cell)}
        return [times("start of a process", rounds(count, ways, warm=2), {OURS: GOAL})]


def bare_start(number: int) -> float:
    """The reference of all that starts a program: this interpreter, to its first statement."""
    began = time.monotonic()
    ran = subprocess.run([sys.executable, "-E", "-s", "-c", STATEMENT], capture_output=True, check=True)
    return int(ran.stdout) / 1e9 - began


def _to_success(cell: Cell) -> float:
    value = cell.boot()
    began = time.monotonic()
    runner = cell.start(value)
    while "SUCCESS" not in runner.words():
        if runner.process.poll() is not None:
            raise RuntimeError(f"the runner ended with {runner.process.returncode}: {runner.log()[-2000:]}")
        time.sleep(0.0005)
    seconds = time.monotonic() - began
    runner.process.kill()
    runner.process.wait()
    return seconds
