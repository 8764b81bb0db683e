"""One sample of what the agent takes of the machine. It waits for nothing that the cell holds."""

from __future__ import annotations

import contextlib
import os
import stat

import psutil

from infra.keep.limits.judge import Log, Sample, Volume
from infra.shared.identity import Identity
from infra.shared.paths import OUTPUTS, RECORDS, Paths
from infra.shared.safe_files import Below, Entry

LOGS_DEPTH, MOST_LOGS = 3, 1000
GROUP = "/sys/fs/cgroup"


def take(places: Paths, cell: Identity, boot_id: str, branch: str, group: str = GROUP) -> Sample:
    """Of the runner with this boot id, which works in the clone of `branch`. `group`: where the container's own control
    group is. What cannot be read is left out. Raises OSError."""
    # Without a user of its own the cell is in no container, and the control group is also the PM's.
    is_contained = cell.uid is not None and os.path.exists(f"{group}/cgroup.type")
    return Sample(
        boot_id,
        _cores(group if is_contained else ""),
        _seconds_of_group(group) if is_contained else _seconds_below_us(),
        _size(places.ledger),
        _logs_of(Below(places.bot, cell), branch),
        _volumes(places),
    )


def _seconds_of_group(group: str) -> float:
    """Of all in the container; what the keep takes of it is little."""
    with open(f"{group}/cpu.stat", encoding="ascii") as file:
        facts = dict(line.split() for line in file)
    return int(facts["usage_usec"]) / 1e6


def _seconds_below_us() -> float:
    """Of the watcher and all that descends from it: an orphan is handed to it, and what has ended counts with whoever
    waited for it. Not seen is a process that left the watcher's tree, or that nobody waited for."""
    us, seconds = psutil.Process(), 0.0
    for process in (us, *us.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _cores(group: str) -> float:
    """Processors that we, and so the cell, may use: of a container with a bound, that bound."""
    here = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError, ValueError):  # `max`: no bound
        with open(f"{group}/cpu.max", encoding="ascii") as file:
            quota, period = map(int, file.read().split())
        return min(here, quota / period)
    return here


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:  # no call was ever made
        return 0


def _logs_of(bot: Below, branch: str) -> tuple[Log, ...]:
    """The files in `logs/` of that branch's clone, but for whole outputs, of which the new replace the old."""
    checkout, found = f"{branch}/minifram/", list[Log]()
    for entry in bot.walk(f"{checkout}logs", depth=LOGS_DEPTH, most=MOST_LOGS):
        if isinstance(entry, Entry) and stat.S_ISREG(entry.status.st_mode):
            name = entry.path.removeprefix(checkout)
            if not name.startswith(f"{OUTPUTS}/"):
                size = min(entry.status.st_size, entry.status.st_blocks * 512)  # a file may have holes
                found.append(Log(entry.path, size, name.startswith(RECORDS)))
    return tuple(found)


def _volumes(places: Paths) -> tuple[Volume, ...]:
    """The disks of the agent's and of the keep's directory, once if they are the same."""
    found: dict[int, Volume] = {}
    for path in (places.bot, places.var):
        now = os.statvfs(path)
        found.setdefault(os.stat(path).st_dev, Volume(path, now.f_bavail * now.f_frsize, now.f_favail, now.f_files))
    return tuple(found.values())
