"""What the kernel tells of changes in directories (inotify(7)), so that nobody has to look at every file to find the
one that is other than before."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import weakref
from typing import NamedTuple

_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES, _FOLLOW_NO_LINK = 0x4000, 0x8000, 0x01000000, 0x02000000
_ENTRIES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_IS_DIRECTORY = 0x40000000
_MASK = _MODIFY | _ATTRIB | _ENTRIES | _ONLY_DIRECTORIES | _FOLLOW_NO_LINK
_HEAD = struct.Struct("iIII")
PIECE_BYTES = 1 << 16
MOST = 5000
"""Directories; the kernel's own limit is for all programs of one user."""
MOST_CHANGES = 1 << 16
"""Read at once: several times what the kernel keeps. Who makes them as fast as they are read would be read for ever."""


class Change(NamedTuple):
    directory: str
    name: str
    is_listed: bool
    """The directory has gained or lost an entry of this name."""
    is_directory: bool


class WatchedDirectories:
    """Raises OSError when the kernel gives none."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._paths: dict[int, str] = {}

    @property
    def is_open(self) -> bool:
        """Nothing is missed; else everything has to be looked at."""
        return self._close.alive

    def add(self, directory: str) -> None:
        """From now on. One that is gone is no trouble; when there are too many, all are given up."""
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK)
        if number >= 0:
            self._paths[number] = directory  # one that was moved has another path now
        elif ctypes.get_errno() not in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP):
            self.close()
        if len(self._paths) > MOST:
            self.close()

    def changes(self, most: int = MOST_CHANGES) -> list[Change] | None:
        """Since the last time; None when the kernel has dropped some, or there is no end of them."""
        found: list[Change] = []
        while len(found) <= most:
            try:
                piece = os.read(self._descriptor, PIECE_BYTES)
            except BlockingIOError:
                return found
            at = 0
            while at < len(piece):
                number, mask, _, length = _HEAD.unpack_from(piece, at)
                name = piece[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                at += _HEAD.size + length
                if mask & _OVERFLOW:
                    return None
                path = self._paths.pop(number, "") if mask & _IGNORED else self._paths.get(number, "")
                if path and name:
                    found.append(Change(path, os.fsdecode(name), bool(mask & _ENTRIES), bool(mask & _IS_DIRECTORY)))
        return None

    def close(self) -> None:
        self._close()
