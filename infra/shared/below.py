"""Opening and listing what lies in the agent's directory: no link is followed at any step below it, nothing blocks, and
there is an end to it. Called as the cell (`Identity.acting`), so that the kernel refuses what is not the cell's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Entry(NamedTuple):
    name: str
    """Below the root."""
    status: os.stat_result


def open_directory(root: str, name: str) -> int:
    """A descriptor of `root`/`name`; only `root` itself may be reached by links. Raises OSError."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in name.split("/"):
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _SAFE, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def open_file(directory: int, name: str, flags: int) -> int:
    """A regular file that is there already. Raises OSError for anything else."""
    descriptor = os.open(name, flags | _SAFE, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{name} is no regular file; remove it")
    return descriptor


def walk(root: str, name: str, depth: int) -> Iterator[Entry | OSError]:
    """All that lies below `root`/`name`, on the same device; what cannot be looked into is given as its error.

    Only names are held open in memory, of one directory at a time and its unvisited children."""
    waiting = [(name, depth)]
    device: int | None = None
    while waiting:
        where, left = waiting.pop()
        try:
            descriptor = open_directory(root, where)
        except FileNotFoundError as error:
            if where == name:  # what goes away meanwhile is no error; what was asked for is
                yield error
            continue
        except OSError as error:
            yield error
            continue
        try:
            device = device or os.fstat(descriptor).st_dev
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield Entry(f"{where}/{entry.name}", status)
                    if not stat.S_ISDIR(status.st_mode) or status.st_dev != device:
                        continue
                    if left:
                        waiting.append((f"{where}/{entry.name}", left - 1))
                    else:
                        yield OSError(f"{where}/{entry.name} lies too deep to be looked into")
        except OSError as error:
            yield error
        finally:
            os.close(descriptor)


def takes(status: os.stat_result) -> int:
    """Bytes that a file takes on the disk, at most what it says."""
    return min(status.st_size, status.st_blocks * 512)
