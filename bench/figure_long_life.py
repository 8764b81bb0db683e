"""What many boots cost the watcher: its memory and its processor time for each of the last boots against the first.

Each boot is a whole one: main is started, asked through both doors, makes way for main again and leaves."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from bench import bodies
from bench.costs import cpu_seconds, memory_of
from bench.scene import WatchedAgent
from bench.stamps import now, progress
from bench.tables import Figure, Table, Verdict, milliseconds, spread, times

SETTLED_BOOTS = 10
"""After so many everything that is imported or cached once has been."""


class Moment(NamedTuple):
    """As a boot of the watcher's runner began."""

    cpu_seconds: float
    rss: float
    pss: float
    descriptors: int


def run(directory: Path, seconds: float) -> Figure:
    with contextlib.ExitStack() as cleanup:
        agent = WatchedAgent(directory / "agent", body=bodies.HOPS)
        cleanup.callback(agent.close)
        agent.launch()
        moments: list[Moment] = []
        began = now()
        while now() - began < seconds or len(moments) < 2 * SETTLED_BOOTS:
            agent.stamps.next("first", "the next boot")
            moments.append(_moment(agent.pid))
            progress("longlife", f"boot {len(moments)}, {max(0.0, seconds - now() + began):.0f} s to go")
        launched = Path(agent.places.watcher_log).read_text().count('"event": "runner.launched"')
        agent.stop()
    return _figure(moments[SETTLED_BOOTS:], launched, seconds)


def _moment(pid: int) -> Moment:
    return Moment(cpu_seconds(pid), *memory_of(pid), len(os.listdir(f"/proc/{pid}/fd")))


def _figure(moments: list[Moment], launched: int, seconds: float) -> Figure:
    part = max(2, len(moments) // 10)
    ends = {"the first tenth of them": moments[:part], "the last tenth": moments[-part:]}
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            name,
            str(len(those) - 1),
            milliseconds(_cpu_of_each(those)),
            f"{spread([each.rss for each in those]).median:.1f}",
            f"{spread([each.pss for each in those]).median:.1f}",
            f"{spread([float(each.descriptors) for each in those]).median:.0f}",
        )
        for name, those in ends.items()
    )
    first, last = ends.values()
    ratios = [_cpu_of_each(last) / _cpu_of_each(first)]
    for name in ("rss", "pss"):
        before, after = (spread([float(getattr(each, name)) for each in those]).median for those in (first, last))
        ratios.append(after / before)
    rows += (("last against first", "", *(times(ratio) for ratio in ratios), ""),)
    table = Table(
        f"the watcher over {launched} boots in {seconds:g} s (after {SETTLED_BOOTS} to settle)",
        ("", "boots", "CPU ms a boot", "RSS MiB", "PSS MiB", "open files"),
        rows,
        ("The watcher's own processor time, without git's and the doors'; medians of what was seen at each boot.",),
    )
    text = (
        f"{launched} boots: CPU of each {times(ratios[0])}, RSS {times(ratios[1])}, PSS {times(ratios[2])} of the first"
    )
    return Figure((table,), (Verdict(None, f"{text}; no goal, shown"),))


def _cpu_of_each(those: list[Moment]) -> float:
    return (those[-1].cpu_seconds - those[0].cpu_seconds) / (len(those) - 1)
