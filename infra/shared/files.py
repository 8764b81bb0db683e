"""Files that others read are written beside and renamed over, and are on the disk before anybody acts on them."""

from __future__ import annotations

import contextlib
import os
from _thread import get_ident  # what `threading` offers under this name, without the cost of importing it


def write_whole(path: str, content: bytes, mode: int = 0o644) -> None:
    """Replace `path` in one step: temporary name, fsync, rename, fsync of the directory. A link is replaced itself.

    Raises OSError; then the old file is still whole and the temporary one is gone. (Only when the last step fails,
    the new file is there whole, but may not be there any more after a power cut.)"""
    directory, name = os.path.split(path)
    directory = directory or "."
    temporary = f"{directory}/.{name}.{os.getpid()}.{get_ident()}.tmp"
    descriptor = _create(temporary, mode)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    sync_directory(directory)


def sync_tree(path: str) -> None:
    """Have the directory at `path` on the disk with all that is in it. Raises OSError."""
    for directory, _, names in os.walk(path):
        for name in names:
            _sync(f"{directory}/{name}", os.O_NOFOLLOW)
        sync_directory(directory)


def make_directories(path: str, mode: int = 0o777) -> None:
    """Make the directory at `path` and what is missing above it, each on the disk. Raises OSError."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):  # somebody else was quicker
            os.mkdir(each, mode)
        sync_directory(os.path.dirname(each) or ".")


def sync_directory(path: str) -> None:
    _sync(path, os.O_DIRECTORY)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create(path: str, mode: int) -> int:
    """A new file, never one that somebody else put there: a pipe would block us, an old file has its own mode."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileExistsError:  # left by a killed process that had our numbers
        _remove(path)
        return os.open(path, flags, mode)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
