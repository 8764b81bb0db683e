"""One look at what the cell takes of the machine. It costs milliseconds, waits for nothing that the cell holds, and
never raises: what cannot be seen is left out and said. What it means is for `judge`."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from infra.keep.active import Runner
from infra.keep.limits import growth, processor, progress
from infra.keep.limits.values import Log, Process, Sample
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.repository.git import GitError
from infra.shared.safe_files import Below
from infra.shared.status_file import SLEEPING

_LEFT_OUT_KEPT = 20

_Part = TypeVar("_Part")


def take(
    places: Paths,
    cell: Identity,
    runner: Runner | None,
    keep_pids: Collection[int],
    before: Sample | None = None,
    weigh: bool = False,
    excused: bool = False,
) -> Sample:
    """Look once. `before` is the look that the judge remembers, from which counters go on; with `weigh`, the agent's
    whole directory is looked through as well (at most a second). `excused`: see `Sample`."""
    monotonic, boottime = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
    left_out: list[str] = []

    def seen(what: str, look: Callable[[], _Part], otherwise: _Part) -> _Part:
        try:
            return look()
        except (OSError, ValueError, GitError) as error:
            left_out.append(f"{what}: {error}")
            return otherwise

    bot = Below(places.bot, cell)
    every = seen("processes", lambda: processor.table(left_out), dict[int, processor.Listed]())
    pid = runner.pid if runner else 0
    processes = seen("processes", lambda: processor.chosen(every, cell, pid, keep_pids, places), tuple[Process, ...]())
    # Without a user of its own the cell is in no container, and the control group is also the PM's.
    group = None
    if cell.uid is not None:
        group = seen("control group", lambda: processor.group_seconds(every, processes), None)
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    branch = runner.branch if runner else ""
    logs = tuple[Log, ...]()
    if branch:
        logs = seen("logs", lambda: growth.logs_of(bot, branch, left_out), logs)
    status = growth.status_of(bot, branch) if branch else None
    weight = None
    if weigh:
        weight = seen("weight", lambda: growth.weight_of(bot, left_out), None)
    last = before.progress if before else None
    return Sample(
        monotonic=monotonic,
        boottime=boottime,
        runner=runner,
        cores=processor.cores(processor.GROUP if cell.uid is not None else None),
        processes=processes,
        reaped=reaped.ru_utime + reaped.ru_stime,
        group_seconds=group,
        logs=logs,
        volumes=seen("volumes", lambda: growth.volumes(places, left_out), ()),
        weight=weight,
        progress=seen("progress", lambda: progress.look(places, last), None),
        is_asleep=status is not None and status.doing == SLEEPING,
        has_services=status is not None and bool(status.services),
        is_excused=excused,
        left_out=tuple(words[:300] for words in left_out[:_LEFT_OUT_KEPT]),
        took=time.monotonic() - monotonic,
    )
