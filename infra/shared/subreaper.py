"""Being the one to whom the kernel gives what a descendant leaves behind, and ending with one's parent (prctl(2))."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def become_subreaper() -> None:
    """From now on what a child leaves behind is our child, however it got away. Raises OSError."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """From now on the end of the thread that forked us is ours. Raises OSError."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def our_children() -> list[int]:
    """Of all threads of this process, from the kernel's own list (proc(5)); psutil asks every process of the machine
    for its parent, which takes a hundred times as long."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
    return found
