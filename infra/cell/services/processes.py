"""The processes below this one: whose they are, what they take, and the end of those that nobody declared."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

import psutil

from infra.cell.services.judge import Taken
from infra.cell.services.own_children import OWN_CHILDREN

POLITE_SECONDS = 0.3
END_SECONDS = 5.0
FAST_LOOKS = 50
START_FIELD = 19
"""Of /proc/PID/stat behind the name: when it began (proc(5))."""


def end_all_but(kept: Callable[[], frozenset[int]]) -> list[str]:
    """End every descendant but `kept` and theirs; gives what was ended. What does not end in time is left to the
    watcher."""
    ended: dict[int, str] = {}
    with OWN_CHILDREN:
        began = time.monotonic()
        while True:
            strays, died = _strays(kept)
            if not strays and not died:
                break
            waited = time.monotonic() - began
            if waited > END_SECONDS:
                break
            for stray in strays:
                with contextlib.suppress(psutil.Error):
                    if stray.pid not in ended:
                        ended[stray.pid] = f"{stray.pid} {stray.name()}"
                        stray.terminate()
                    elif waited > POLITE_SECONDS:
                        stray.kill()
            if not strays:  # what died may have left a child that the look was too slow for
                _kill_children_but(kept)
            time.sleep(0.005 if strays else 0.0)
    return list(ended.values())


def older_than(began: float) -> frozenset[int]:
    """Descendants that were there so long after the start of the machine (CLOCK_BOOTTIME)."""
    found, ticks = set(), began * os.sysconf("SC_CLK_TCK") - 1  # the last one may have begun just before that
    for process in psutil.Process().children(recursive=True) if began else ():
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{process.pid}/stat", encoding="utf-8", errors="replace") as file,
        ):
            if int(file.read().rpartition(")")[2].split()[START_FIELD]) < ticks:
                found.add(process.pid)
    return frozenset(found)


def reap(kept: Callable[[], frozenset[int]]) -> None:
    """Zombies that nobody else waits for, so that they do not gather during a long run."""
    if OWN_CHILDREN.acquire(blocking=False):
        try:
            children, known = _children(), kept()  # in this order: what is started meanwhile is not among them
            for pid in children:
                if pid not in known:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)
        finally:
            OWN_CHILDREN.release()


def _children() -> list[int]:
    """Of all threads of this process, from the kernel's own list; psutil asks every process of the machine for its
    parent, which takes longer than the step of a run that this is a part of."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
    return found


def _strays(kept: Callable[[], frozenset[int]]) -> tuple[list[psutil.Process], int]:
    """Descendants that live, but for `kept` and theirs; and how many of our own had died, which are reaped here."""
    me, found, died = os.getpid(), list[psutil.Process](), 0
    below = psutil.Process().children(recursive=True)  # a parent comes before its children
    known = set(kept())  # behind it: what is started meanwhile is not among them
    for process in below:
        with contextlib.suppress(psutil.Error):
            parent = process.ppid()
            if process.pid in known or parent in known:
                known.add(process.pid)
            elif process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif parent == me:
                died += 1
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
    return found, died


def _kill_children_but(kept: Callable[[], frozenset[int]]) -> None:
    """Those that became ours when their parent ended, at once: processes that each start the next and end live shorter
    than a look at all processes takes."""
    for _ in range(FAST_LOOKS):
        children, known = _children(), kept()
        for pid in children:
            if pid not in known:  # not reaped before we do it, so nobody else's
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def taken_by(pid: int) -> Taken:
    """By a process and its descendants, since they began; nothing by one that is gone."""
    memory, seconds = 0, 0.0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                memory += process.memory_info().rss
                seconds += times.user + times.system + times.children_user + times.children_system
    return Taken(memory, seconds)


def signal_tree(pid: int, number: signal.Signals) -> None:
    """A service's session, and what left it."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def memory_of_cell() -> int:
    """Bytes that this machine, or this control group if it is less, may use."""
    found = [psutil.virtual_memory().total, *_numbers(["/sys/fs/cgroup/memory.max"])]
    return min(found)


def processors_of_cell() -> float:
    found = [float(len(os.sched_getaffinity(0)))]
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
        quota, period = file.read().split()
        found.append(int(quota) / int(period))
    return min(found)


def _numbers(paths: Iterable[str]) -> list[int]:
    found = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found.append(int(file.read()))
    return found
