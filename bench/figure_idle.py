"""What supervision costs while nothing happens: processor time and memory over the same interval, at the same time.

The watcher and supervisord supervise one sleeping program each. The doors, which supervisord has no counterpart of,
are on rows of their own. Processor time is the kernel's own count of the process (its CPU clock), in nanoseconds."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.costs import cpu_seconds, memory_of
from bench.peers import Peer, supervisord
from bench.scene import WatchedAgent
from bench.stamps import progress
from bench.tables import Figure, Table, Verdict, milliseconds, times

SETTLE_SECONDS = 3.0
OURS, THEIRS = "minifram's watcher", "supervisord"
DOORS = {"infra.git_door": "minifram's git door", "infra.model_door": "minifram's model door"}


class Use(NamedTuple):
    """Of one process over the interval; sizes in MiB at its end."""

    cpu_seconds: float
    wakeups: int
    rss: float
    pss: float
    """Resident, with what is shared counted in parts."""


def run(directory: Path, seconds: float) -> Figure:
    with contextlib.ExitStack() as cleanup:
        peer = Peer(THEIRS, directory / "peer", supervisord)
        cleanup.callback(peer.close)
        agent = WatchedAgent(directory / "agent")
        cleanup.callback(agent.close)
        peer.start()
        peer.stamps.next("first", "supervisord starting its program")
        agent.start()
        pids = {OURS: agent.pid, THEIRS: peer.pid} | _doors_of(agent.pid)
        time.sleep(SETTLE_SECONDS)
        before = {name: (cpu_seconds(pid), _wakeups(pid)) for name, pid in pids.items()}
        began = time.monotonic()
        left = seconds
        while left > 0:
            progress("idle", f"{left:.0f} s to go")
            time.sleep(min(left, 10.0))
            left = seconds - (time.monotonic() - began)
        used = {name: _use(pid, *before[name]) for name, pid in pids.items()}
    return _figure(used, seconds)


def _doors_of(watcher: int) -> dict[str, int]:
    found = {}
    for child in psutil.Process(watcher).children():
        words = child.cmdline()
        for module, name in DOORS.items():
            if module in words:
                found[name] = child.pid
    if set(found) != set(DOORS.values()):
        raise RuntimeError(f"the watcher runs {sorted(found)}; expected {sorted(DOORS.values())}")
    return found


def _wakeups(pid: int) -> int:
    """How often a thread of the process went to sleep, which is how often one woke."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        total += int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return total


def _use(pid: int, cpu_before: float, wakeups_before: int) -> Use:
    used, wakeups = cpu_seconds(pid) - cpu_before, _wakeups(pid) - wakeups_before
    return Use(used, wakeups, *memory_of(pid))


def _figure(used: dict[str, Use], seconds: float) -> Figure:
    rows = tuple(
        (
            name,
            milliseconds(use.cpu_seconds),
            f"{use.cpu_seconds / seconds:.3%}",
            f"{use.wakeups / seconds:.1f}",
            f"{use.rss:.1f}",
            f"{use.pss:.1f}",
        )
        for name, use in used.items()
    )
    table = Table(
        f"idle for {seconds:g} s, each supervising one sleeping program, at the same time",
        ("", "CPU ms", "of a core", "wake-ups/s", "RSS MiB", "PSS MiB"),
        rows,
    )
    ours, theirs = used[OURS], used[THEIRS]
    cpu = f"{milliseconds(ours.cpu_seconds)} ms CPU, {times(ours.cpu_seconds / theirs.cpu_seconds)} of supervisord's"
    memory = f"PSS {ours.pss:.1f} MiB, {times(ours.pss / theirs.pss)} of its"
    theirs_cpu = milliseconds(theirs.cpu_seconds)
    text = f"watcher in {seconds:g} s: {cpu} {theirs_cpu} ms; {memory} {theirs.pss:.1f} MiB; no goal, shown"
    return Figure((table,), (Verdict(None, text),))
