"""What supervision costs while nothing happens: processor time and memory, over the same interval.

The watcher and supervisord supervise one sleeping program each. The doors have no counterpart there."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil

from bench.peers import installed
from bench.supervised import KINDS, Supervisor, started
from bench.tables import Table

ROUNDS = 60
"""Seconds."""
SETTLE_SECONDS = 3.0
HEAD = ("", "CPU ms", "of a core", "RSS MiB", "PSS MiB")
DOORS = {"infra.git_door", "infra.model_door"}


def run(directory: Path, seconds: int) -> list[Table]:
    there, notes = installed("supervisord")
    with contextlib.ExitStack() as cleanup:
        agent = cleanup.enter_context(started(directory / "agent", "hops: 10"))
        agent.serving()
        assert agent.watcher
        doors = psutil.Process(agent.watcher.pid).children()
        pids = {"minifram's watcher": agent.watcher.pid}
        pids |= {name: each.pid for each in doors for name in DOORS.intersection(each.cmdline())}
        for name in there:
            pids[name] = cleanup.enter_context(contextlib.closing(Supervisor(directory / name, KINDS[name]))).pid
        time.sleep(SETTLE_SECONDS)
        before = {name: _cpu_seconds(pid) for name, pid in pids.items()}
        time.sleep(seconds)
        rows = []
        for name, pid in pids.items():
            used, memory = _cpu_seconds(pid) - before[name], psutil.Process(pid).memory_full_info()
            sizes = f"{memory.rss / 2**20:.1f}", f"{memory.pss / 2**20:.1f}"
            rows.append((name, f"{1000 * used:.2f}", f"{used / seconds:.3%}", *sizes))
    return [Table(f"idle for {seconds} s", HEAD, rows, notes)]


def _cpu_seconds(pid: int) -> float:
    # clock_getcpuclockid(3): the clock of all that the process has run, in nanoseconds.
    return time.clock_gettime(~pid << 3 | 2)
