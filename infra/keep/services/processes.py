"""Processes of one agent: how they end, and the end of all that one left.

The watcher is the subreaper of all its descendants (prctl(2)), so a process that forks twice to get away is
handed back to it. What it starts itself ends with it (`children.begin_aside`)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator

import psutil

from infra.keep.services.children import KEEPS
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.subreaper import our_children

SWEEP_SECONDS = 15.0
UNUSED_UID = 65_533
"""No program runs as this user."""


def is_alive(pid: int) -> bool:
    """There is such a process, and it has not ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def how_it_ended(returncode: int) -> str:
    """A Popen's return code in words."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-returncode}"


FROM_OUTSIDE = frozenset({0, -signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT, -signal.SIGHUP})
"""Return codes of a runner that somebody else may have ended. Exit status 0 is how it obeys SIGTERM."""


def memory_kills() -> int:
    """How often the kernel has ended a process for want of memory: in this container, else on this machine."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            found = _KILLS.search(file.read())
            if found:
                return int(found[1])
    return 0


_KILLS = re.compile(rb"^oom_kill ([0-9]+)$", re.MULTILINE)


def end_strays(places: Paths) -> list[str]:
    """End what an earlier watcher of this agent, or a runner of its, left behind; gives what was ended.

    They ended together, but not what had forked away from the runner, nor what was just being started. It is not our
    descendant, and known by its environment. Repeats until none is left, as `sweep` does."""
    deadline, ended = time.monotonic() + SWEEP_SECONDS, dict[int, str]()
    while (strays := list(_left_behind(places))) and time.monotonic() < deadline:
        for stray in strays:
            ended.setdefault(stray.pid, _kill(stray))
        time.sleep(0.001)
    return list(ended.values())


def _left_behind(places: Paths) -> Iterator[psutil.Process]:
    homes = places.home("")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # it is another user's, or gone
            env = process.environ()
            is_known = env.get(KEEPS) == places.var or env.get("HOME", "").startswith(homes)
            if is_known and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def ask_group(pid: int, number: signal.Signals) -> None:
    """Signal the session's process group; a group that is gone needs none."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def sweep(keep: frozenset[int], cell: Identity = OURS) -> list[str]:
    """End every descendant but the services `keep` and theirs; gives what was ended.

    Repeats until none is left, because what is being killed may still fork; raises TimeoutError after 15 s. A process
    that forks and exits without rest is in no list for long enough. Where we are process 1, and the cell a user of its
    own, one call to the kernel therefore ends all of that user's first (kill(2), pid -1)."""
    if _is_alone(cell):
        signal_all_of(cell, signal.SIGKILL)
    deadline = time.monotonic() + SWEEP_SECONDS
    ended: dict[int, str] = {}
    # Everything hangs below a child of ours. Where the kernel does not list them, the two are never the same.
    while set(our_children()) != keep and (strays := _strays(keep)):
        for stray in strays:
            ended.setdefault(stray.pid, _kill(stray))
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(strays)} processes of the runner would not end: {json.dumps(ended)[:500]}")
        time.sleep(0.001)
    return list(ended.values())


def _is_alone(cell: Identity) -> bool:
    """Every process of this user is the cell's."""
    return bool(cell.uid) and os.getpid() == 1


def signal_all_of(who: Identity, number: signal.Signals) -> None:
    """By a process of that user's, which has no right to any other's, and starts no program: the user may have used up
    what the kernel grants for that."""
    try:
        child = os.fork()
    except OSError:  # the caller looks for what is left
        return
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(who.gid or 0, who.gid or 0, who.gid or 0)
            # Only the effective user sends; that user can send nothing back, as the real and the saved one are another.
            os.setresuid(UNUSED_UID, who.uid or UNUSED_UID, UNUSED_UID)
            if os.geteuid() == who.uid:
                os.kill(-1, number)  # all but the sender (kill(2))
        os._exit(0)
    os.waitpid(child, 0)


def reap_orphans(ours: frozenset[int]) -> None:
    """Reap what was handed to us, so that no zombies gather; `ours` are waited for elsewhere."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in ours:
                return
            _reap(ended.si_pid)


def _strays(keep: frozenset[int]) -> list[psutil.Process]:
    """Descendants that live, but the services and theirs. Our own zombies are reaped on the way."""
    me, kept, found = os.getpid(), set(keep), []
    for process in psutil.Process().children(recursive=True):  # a parent comes before its children
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = process.ppid()
            if process.pid in kept or parent in kept:
                kept.add(process.pid)
            elif process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif parent == me:
                _reap(process.pid)
    return found


def _kill(process: psutil.Process) -> str:
    try:
        name = f"{process.pid} {process.name()}"
        process.kill()
    except psutil.Error:  # it is gone, or we may not: then it is there still when we look again
        return str(process.pid)
    return name


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
