"""How much processor time the cell used between two looks. Pure.

Time does not get lost when a process ends: the kernel gives it to the parent that waits for it, and an orphan's to the
watcher. So what children used counts as far as it is more than what those that are gone had used when they were last
seen. Not seen is only what a process used that nobody waited for (its parent ignores SIGCHLD) and that lived and ended
between two looks; where the kernel counts for the container as a whole, that is counted instead and misses nothing."""

from __future__ import annotations

from infra.keep.limits.observed import TICKS, Sample


def used(before: Sample, after: Sample) -> float:
    """Processor seconds; never more than the processors there are could have given."""
    if before.group_seconds is not None and after.group_seconds is not None:
        seconds = after.group_seconds - before.group_seconds
    else:
        seconds = _by_processes(before, after)
    most = after.cores * (after.monotonic - before.monotonic)
    return min(max(0.0, seconds), max(0.0, most))


def _by_processes(before: Sample, after: Sample) -> float:
    known = {(process.pid, process.started): process for process in before.processes}
    own, gained = 0.0, after.reaped - before.reaped
    for process in after.processes:
        earlier = known.pop((process.pid, process.started), None)
        if earlier:
            own += max(0.0, process.own - earlier.own)
            gained += max(0.0, process.children - earlier.children)
        elif process.started >= before.boottime * TICKS - 1:  # of an older one it is not known when it used its time
            own += process.own
            gained += process.children
    gone = sum(process.own + process.children for process in known.values())
    return own + max(0.0, gained - gone)
