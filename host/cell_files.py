"""Files that the agent wrote, read from the host: no link is followed on any step of the way, nothing blocks, and
nothing is read without a bound. What is missing, or is something else than it should be, reads as nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

MAX_DEPTH = 8
MAX_DIRECTORIES = 2000


class Piece(NamedTuple):
    """A part of a file, and where it ends."""

    content: bytes
    end: int
    """Offset just behind `content`."""
    identity: int
    """The inode: another one means that the file was replaced."""
    modified: float


def read_tail(root: str, path: str, limit: int) -> Piece | None:
    """The last `limit` bytes of the file at `path` below `root`; `root` itself is trusted."""
    return _read(root, path, lambda size: max(0, size - limit), limit)


def read_from(root: str, path: str, offset: int, limit: int) -> Piece | None:
    """Up to `limit` bytes from `offset`; from the start when the file is shorter than that by now."""
    return _read(root, path, lambda size: offset if offset <= size else 0, limit)


def branches_with_checkouts(bot: str) -> list[str]:
    """The branches that have a directory `<branch>/minifram` below `bot`, as their names stand there."""
    found: list[str] = []
    left = MAX_DIRECTORIES

    def walk(directory: str, depth: int) -> None:
        nonlocal left
        for name in _directories_in(f"{bot}/{directory}" if directory else bot):
            left -= 1
            if left < 0:
                return
            if name == "minifram":
                found.append(directory)
            elif depth < MAX_DEPTH and not name.startswith("."):
                walk(f"{directory}/{name}" if directory else name, depth + 1)

    walk("", 0)
    return sorted(name for name in found if name)


def _directories_in(path: str) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    # A checkout ends a branch's name: what lies inside it or beside it is no branch.
    yield from ["minifram"] if "minifram" in names else sorted(names)


def _read(root: str, path: str, start_of: Callable[[int], int], limit: int) -> Piece | None:
    *directories, name = path.split("/")
    at = _descend(root, directories)
    if at is None:
        return None
    try:
        descriptor = os.open(name, _FILE, dir_fd=at)
    except OSError:
        return None
    finally:
        os.close(at)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        start = start_of(status.st_size)
        content = os.pread(descriptor, limit, start)
        return Piece(content, start + len(content), status.st_ino, status.st_mtime)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _descend(root: str, directories: list[str]) -> int | None:
    """A descriptor of the directory below `root`; None when one on the way is missing, or no directory."""
    if ".." in directories:
        return None
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    for directory in directories:
        try:
            inner = os.open(directory, _DIRECTORY, dir_fd=at)
        except OSError:
            return None
        finally:
            os.close(at)
        at = inner
    return at


def files_in(root: str, path: str, most: int) -> list[str]:
    """The names of up to `most` regular files in the directory at `path` below `root`, in order."""
    at = _descend(root, path.split("/"))
    if at is None:
        return []
    try:
        with os.scandir(at) as entries:
            names = (entry.name for entry in entries if entry.is_file(follow_symlinks=False))
            return sorted(islice(names, most))
    except OSError:
        return []
    finally:
        os.close(at)
