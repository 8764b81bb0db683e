"""Idle sealed agents on one machine, as `minifram up` makes them: what each takes, how many the limits of the machine
have room for, and how long the last one takes to start. It is what all processes of this user take more than before:
take it where the user runs nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import sys
import time
from functools import partial
from pathlib import Path

import psutil

from bench.tables import Table, timed, times
from tests.sealed.support.agent import INIT, SealedAgent
from tests.sealed.support.project import Project
from tests.sealed.support.rootless import Rootless, prepared

ROUNDS = 20
"""Agents."""
IDLE_SECONDS = 60.0
MIB = 1 << 20
PROCESSOR, MEMORY, TASKS = "processor, % of a core", "memory, MiB", "tasks (pids)"
WATCHES, KEYS, DISK = "inotify instances", "keys of the kernel", "disk, MiB"


def run(directory: Path, count: int) -> list[Table]:
    with prepared() as user, contextlib.ExitStack() as cleanup:
        project = Project(user)
        agents = [SealedAgent(project, f"fleet{number}") for number in range(count)]
        for agent in agents:
            cleanup.callback(agent.clear)
            agent.clear()  # what an earlier fleet left that was killed
        before = _taken(project)
        for agent in agents:
            agent.minifram(*INIT)
        started = [timed(agent.minifram, "up")(0) for agent in agents]
        time.sleep(IDLE_SECONDS / 4)  # what a start leaves to do
        first, began = _taken(project), time.monotonic()
        time.sleep(IDLE_SECONDS)
        last, seconds = _taken(project), time.monotonic() - began
        status = timed(partial(agents[0].minifram, "status", "--all", check=False))  # others of this user may be down
        took = {"up, the first": started[:1], f"up, number {count}": started[-1:]}
        took["status --all"] = [status(number) for number in range(5)]
    rows, before[PROCESSOR], last[PROCESSOR] = [], 0.0, 100 * (last[PROCESSOR] - first[PROCESSOR]) / seconds
    for name, limit in _limits(user).items():
        taken = last[name] - before[name]
        room = f"{limit * count / taken:,.0f}" if taken else "-"
        rows.append((name, f"{taken / count:.2f}", f"{taken:.2f}", f"{limit:,.0f}", room))
    head = ("", "each", "all", "limit", "room for")
    return [Table(f"{count} idle sealed agents", head, rows), times("minifram", took, {})]


def _taken(project: Project) -> dict[str, float]:
    """Asked as root of the user's namespace, who alone may read all of it."""
    user = project.user
    keys = re.search(rf"^\s*{user.uid}:\s+(\d+)", Path("/proc/key-users").read_text(), re.MULTILINE)
    done = user.podman("unshare", *project.command("bench.figure_fleet", str(user.home)))
    return {**json.loads(done.stdout), KEYS: int(keys[1]) if keys else 0}


def _seen(home: str) -> dict[str, float]:
    """A page of memory that several processes share counts once for all of them together."""
    found = dict.fromkeys((PROCESSOR, MEMORY, TASKS, WATCHES), 0.0)
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # another user's, or it has ended by now
            files = [os.readlink(f"/proc/{one.pid}/fd/{number}") for number in os.listdir(f"/proc/{one.pid}/fd")]
            found[MEMORY] += one.memory_full_info().pss / MIB
            found[PROCESSOR] += sum(one.cpu_times()[:4])
            found[TASKS] += one.num_threads()
            found[WATCHES] += files.count("anon_inode:inotify")
    places = Path(home, ".local").glob("*/minifram/fleet*/**/*")
    return found | {DISK: sum(path.lstat().st_blocks * 512 for path in places) / MIB}


def _limits(user: Rootless) -> dict[str, float]:
    own = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    tasks = [_number("kernel/pid_max"), _number("kernel/threads-max"), own]
    return {
        PROCESSOR: 100.0 * (os.cpu_count() or 1),
        MEMORY: psutil.virtual_memory().total / MIB,
        TASKS: min(each for each in tasks if each != resource.RLIM_INFINITY),
        WATCHES: _number("fs/inotify/max_user_instances"),
        KEYS: _number("kernel/keys/maxkeys"),
        DISK: shutil.disk_usage(user.home).free / MIB,
    }


def _number(name: str) -> int:
    return int(Path("/proc/sys", name).read_text())


if __name__ == "__main__":
    print(json.dumps(_seen(sys.argv[1])))
