"""The processes below this one, and the end of those that nobody declared."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

import psutil

from infra.shared.subreaper import our_children

POLITE_SECONDS = 0.3
END_SECONDS = 5.0


def end_all_but(kept: Callable[[], frozenset[int]]) -> list[str]:
    """End every descendant but `kept` and theirs; gives what was ended. What starts faster than it is looked at, or
    does not end in time, is left to the watcher."""
    ended: dict[psutil.Process, str] = {}
    for number, seconds in ((signal.SIGTERM, POLITE_SECONDS), (signal.SIGKILL, END_SECONDS)):
        strays = _strays(kept)
        for stray in strays:
            with contextlib.suppress(psutil.Error):
                ended.setdefault(stray, f"{stray.pid} {stray.name()}")
                stray.send_signal(number)
        psutil.wait_procs(strays, timeout=seconds)
        reap(kept)
    return list(ended.values())


def _strays(kept: Callable[[], frozenset[int]]) -> list[psutil.Process]:
    found = []
    below = psutil.Process().children(recursive=True)  # a parent comes before its children
    known = set(kept())  # behind it: what is started meanwhile is not among them
    for process in below:
        with contextlib.suppress(psutil.Error):
            if process.pid in known or process.ppid() in known:
                known.add(process.pid)
            elif process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def reap(kept: Callable[[], frozenset[int]]) -> None:
    """Zombies that nobody else waits for, so that they do not gather during a long run."""
    children, known = our_children(), kept()  # in this order: what is started meanwhile is not among them
    for pid in children:
        if pid not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def signal_tree(pid: int, number: signal.Signals) -> None:
    """A service's session, and what left it."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
