"""inotify(7) by ctypes: what the Linux kernel tells of the files of a directory."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

ACCESS, MODIFY, CLOSE_WRITE = 0x1, 0x2, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
OVERFLOW, IGNORED, ONLY_DIRECTORIES, IS_DIRECTORY = 0x4000, 0x8000, 0x01000000, 0x40000000
_HEAD = struct.Struct("iIII")
PIECE_BYTES = 1 << 16
MOST_EVENTS = 1 << 15
"""Taken at once: twice what the kernel keeps."""


class Event(NamedTuple):
    """`name` is that of a file in the watched directory; "" when it happened to the directory itself."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One queue of events. Its calls raise OSError."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise _last_error("inotify_init1")

    def watch(self, path: str, mask: int) -> int:
        """The number that events of this directory bear. A directory that is watched already keeps its number and gets
        the new mask, from one event to the next."""
        number: int = self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), mask | ONLY_DIRECTORIES)
        if number < 0:
            raise _last_error(path)
        return number

    def forget(self, number: int) -> None:
        """No more events with this number; one that is gone already is no trouble."""
        self._libc.inotify_rm_watch(self.descriptor, number)

    def events(self) -> Iterator[Event]:
        """What has come, without waiting. Who makes events as fast as they are read is not read for ever."""
        taken = 0
        while taken < MOST_EVENTS:
            try:
                piece = os.read(self.descriptor, PIECE_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(piece):
                number, mask, _, length = _HEAD.unpack_from(piece, at)
                at += _HEAD.size + length
                taken += 1
                yield Event(number, mask, os.fsdecode(piece[at - length : at].rstrip(b"\0")))

    def close(self) -> None:
        os.close(self.descriptor)


def _last_error(about: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), about)
