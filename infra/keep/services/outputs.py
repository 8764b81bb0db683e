"""What the doors write, bounded: many words are moved to `.1`, by a copy, because the doors hold the file open."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator

import structlog


class Outputs:
    def __init__(self, paths: Iterable[str], rotate_over: int, log: structlog.stdlib.BoundLogger) -> None:
        self._paths = tuple(dict.fromkeys(paths))
        self._rotate_over = rotate_over
        self._log = log

    def bound(self) -> None:
        for path in self._paths:
            try:
                size = os.stat(path).st_size
                if size > self._rotate_over:
                    with _held(path, unless=size > _FAR_TOO_MUCH * self._rotate_over) as is_held:
                        shutil.copyfile(path, f"{path}.1")
                        _sync(f"{path}.1")
                        _cut(path, b"" if is_held else LOST)
            except (FileNotFoundError, BlockingIOError):
                continue
            except OSError as error:  # no space for the copy: the bound counts for more than old words
                self._log.warning("doors.log_lost", reason=str(error))
                with contextlib.suppress(OSError):
                    _cut(path, LOST)


LOST = b"Lines that stood before this one may be lost.\n"
"""Begins a file whose older part may not be whole. Who reads the trace is to know that: a line there makes a difference
(`keep.taint`)."""


def _sync(path: str) -> None:
    """What is cut away is on the disk elsewhere."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _cut(path: str, left: bytes) -> None:
    """In place, as others hold it open; what is left lies in blocks that the file has, also on a full disk."""
    with open(path, "r+b", buffering=0) as file:
        file.write(left)
        file.truncate(len(left))


_FAR_TOO_MUCH = 4
"""So many times the bound, and a program that never lets go of its file has no say any more."""


@contextlib.contextmanager
def _held(path: str, unless: bool) -> Iterator[bool]:
    """The lock under which the trace is written: no line comes between the copy and the cut. Gives whether it is held;
    raises BlockingIOError while a line is being written."""
    with open(path, "rb") as file:
        if not unless:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield not unless
