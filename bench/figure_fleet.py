"""Idle sealed agents on one machine, as `minifram up` makes them: what each takes and all together, how many the limits
of the machine have room for, and how long the last one takes to start. Take it where nothing else runs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.tables import Table, timed, times
from tests.sealed.support.agent import INIT, SealedAgent
from tests.sealed.support.project import Project
from tests.sealed.support.rootless import Rootless, prepared

ROUNDS = 20
"""Agents."""
IDLE_SECONDS = 60.0
MIB = 1 << 20


class Taken(NamedTuple):
    """By one agent's container, with what podman runs beside it."""

    memory: int = 0
    """Bytes; a page that several processes share counts once for all of them together."""
    processor: float = 0.0
    """Seconds up to now."""
    tasks: int = 0
    instances: int = 0
    """Of inotify."""
    disk: int = 0


def run(directory: Path, count: int) -> list[Table]:
    with prepared() as user, contextlib.ExitStack() as cleanup:
        project, agents, started = Project(user), list[SealedAgent](), list[float]()
        for number in range(count):
            agents.append(agent := SealedAgent(project, f"fleet{number}"))
            cleanup.callback(agent.clear)
            agent.minifram(*INIT)
        free, keys = psutil.virtual_memory().available, _keys(user)
        for agent in agents:
            began = time.perf_counter()
            agent.minifram("up")
            started.append(time.perf_counter() - began)
        time.sleep(IDLE_SECONDS / 4)  # what a start leaves to do
        before, began = _look(agents), time.monotonic()
        time.sleep(IDLE_SECONDS)
        seconds = time.monotonic() - began
        after = _look(agents)
        status = partial(agents[0].minifram, "status", "--all", check=False)  # others of this user may be down
        asked = [timed(status)(number) for number in range(5)]
        memory, keys = free - psutil.virtual_memory().available, _keys(user) - keys
    used = [(new.processor - old.processor) / seconds for old, new in zip(before, after, strict=True)]
    processes = min(_number("kernel/pid_max"), _number("kernel/threads-max"), _own(resource.RLIMIT_NPROC))
    total, cores = psutil.virtual_memory().total, 100.0 * (os.cpu_count() or 1)
    rows = [
        _row("memory of its processes, MiB", [each.memory / MIB for each in after], total / MIB),
        _row("memory of the machine, MiB", [memory / MIB / count] * count, total / MIB),
        _row("processor, % of a core", [100 * each for each in used], cores),
        _row("tasks (pids)", [each.tasks for each in after], processes),
        _row("inotify instances", [each.instances for each in after], _number("fs/inotify/max_user_instances")),
        _row("keys of the kernel", [keys / count] * count, _number("kernel/keys/maxkeys")),
        _row("disk, MiB", [each.disk / MIB for each in after], os.statvfs(user.home).f_bavail * 4096 / MIB),
    ]
    return [
        Table(f"{count} idle sealed agents", ("", "median of each", "of all", "limit", "room for"), rows),
        times("minifram", {"up, the first": started[:1], f"up, number {count}": started[-1:], "status --all": asked}),
    ]


def _row(name: str, each: list[float], limit: float) -> tuple[str, ...]:
    most = f"{limit * len(each) / sum(each):,.0f}" if sum(each) else "-"
    return name, f"{statistics.median(each):.2f}", f"{sum(each):.2f}", f"{limit:,.0f}", most


def _look(agents: list[SealedAgent]) -> list[Taken]:
    """Asked as root of the user's namespace, who alone may read all of it."""
    states = [(str(each.state()["ConmonPid"]), str(each.pid()), each.home.data, each.home.state) for each in agents]
    user, project = agents[0].user, agents[0].project
    done = user.podman("unshare", *project.command("bench.figure_fleet", *(word for each in states for word in each)))
    return [Taken(*each) for each in json.loads(done.stdout)]


def _taken(conmon: int, first: int, *places: str) -> Taken:
    """`conmon` is the parent of the container's first process; its way out is a process that names that one."""
    found = list[Taken]()
    ways = [each for each in psutil.process_iter(["name", "cmdline"]) if _is_way_out(each, str(first))]
    for one in [psutil.Process(conmon), *psutil.Process(conmon).children(recursive=True), *ways]:
        with contextlib.suppress(psutil.Error, OSError):  # a git that has ended by now
            instances = sum(_watches(one, descriptor) for descriptor in os.listdir(f"/proc/{one.pid}/fd"))
            found.append(Taken(one.memory_full_info().pss, sum(one.cpu_times()[:4]), one.num_threads(), instances))
    files = (path.lstat().st_blocks * 512 for place in places for path in Path(place).rglob("*"))
    return Taken(*map(sum, zip(*found, strict=True)))._replace(disk=sum(files))


def _is_way_out(process: psutil.Process, first: str) -> bool:
    return process.info["name"] in ("slirp4netns", "pasta") and first in process.info["cmdline"]


def _watches(process: psutil.Process, descriptor: str) -> bool:
    return os.readlink(f"/proc/{process.pid}/fd/{descriptor}") == "anon_inode:inotify"


def _keys(user: Rootless) -> int:
    found = re.search(rf"^\s*{user.uid}:\s+(\d+)", Path("/proc/key-users").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def _number(name: str) -> int:
    return int(Path("/proc/sys", name).read_text())


def _own(kind: int) -> float:
    hard = resource.getrlimit(kind)[1]
    return float("inf") if hard == resource.RLIM_INFINITY else hard


if __name__ == "__main__":
    words = sys.argv[1:]
    groups = (words[at : at + 4] for at in range(0, len(words), 4))
    print(json.dumps([_taken(int(conmon), int(first), *places) for conmon, first, *places in groups]))
