"""Idle sealed agents on one machine, as `minifram up` makes them: what each takes, how many the limits of the machine
have room for, and how long the last one takes to start. Take it where nothing else runs."""

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
PROCESSOR, MEMORY, TASKS = "processor, % of a core", "memory of the machine, MiB", "tasks (pids)"
WATCHES, KEYS, DISK = "inotify instances", "keys of the kernel", "disk, MiB"


def run(directory: Path, count: int) -> list[Table]:
    with prepared() as user, contextlib.ExitStack() as cleanup:
        project = Project(user)
        for left in Path(user.home, ".local/share/minifram").glob("fleet*"):
            SealedAgent(project, left.name).clear()  # of an earlier fleet, which was killed
        agents = [SealedAgent(project, f"fleet{number}") for number in range(count)]
        for agent in agents:
            cleanup.callback(agent.clear)
            agent.minifram(*INIT)
        free, keys = psutil.virtual_memory().available, _keys(user)
        started = [timed(agent.minifram, "up")(0) for agent in agents]
        time.sleep(IDLE_SECONDS / 4)  # what a start leaves to do
        states = [agent.state() for agent in agents]
        pids = [str(state[which]) for state in states for which in ("ConmonPid", "Pid")]
        look = project.command("bench.figure_fleet", str(user.home), *pids)
        # As root of the user's namespace, who alone may read all of it.
        before, began = json.loads(user.podman("unshare", *look).stdout), time.monotonic()
        time.sleep(IDLE_SECONDS)
        taken, seconds = json.loads(user.podman("unshare", *look).stdout), time.monotonic() - began
        taken |= {PROCESSOR: 100 * (taken[PROCESSOR] - before[PROCESSOR]) / seconds, KEYS: _keys(user) - keys}
        taken[MEMORY] = (free - psutil.virtual_memory().available) / MIB
        status = timed(partial(agents[0].minifram, "status", "--all", check=False))  # others of this user may be down
        took = {"up, the first": started[:1], f"up, number {count}": started[-1:]}
        took["status --all"] = [status(number) for number in range(5)]
    rows = []
    for name, limit in _limits(user).items():
        room = f"{limit * count / taken[name]:,.0f}" if taken[name] > 0 else "-"
        rows.append((name, f"{taken[name] / count:.2f}", f"{taken[name]:.2f}", f"{limit:,.0f}", room))
    head = ("", "each", "all", "limit", "room for")
    return [Table(f"{count} idle sealed agents", head, rows), times("minifram", took, {})]


def _keys(user: Rootless) -> int:
    found = re.search(rf"^\s*{user.uid}:\s+(\d+)", Path("/proc/key-users").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def _seen(home: str, pids: set[str]) -> dict[str, float]:
    """Of the containers with these first processes, and of what podman runs beside them."""
    found = dict.fromkeys((PROCESSOR, TASKS, WATCHES), 0.0)
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # a git that has ended by now
            is_way_out = one.name() in ("slirp4netns", "pasta") and pids & set(one.cmdline())
            if is_way_out or pids & {str(each.pid) for each in (one, *one.parents())}:
                files = [os.readlink(f"/proc/{one.pid}/fd/{number}") for number in os.listdir(f"/proc/{one.pid}/fd")]
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
    print(json.dumps(_seen(sys.argv[1], {*sys.argv[2:]})))
