"""Files of the keep and the PM: written beside, synced and renamed over, so that readers see either the old or the new
content, and what was acknowledged is on the disk."""

from __future__ import annotations

import fcntl
import os
import time

from infra.shared.safe_files import Below


def write_whole(path: str, content: bytes, mode: int = 0o644, durable: bool = True) -> None:
    """Replace `path`, in a directory that is ours, in one step; on the disk when this returns if `durable`. A link is
    replaced itself. Raises OSError; then the old file is still whole and the temporary one is gone."""
    directory, name = os.path.split(path)
    Below(directory or os.curdir).write(name, content, mode, durable)


def sync(path: str, flags: int = 0) -> None:
    """A file, or a directory with the names that were made, moved or removed in it, is on the disk then. Raises
    OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_within(descriptor: int, seconds: float) -> bool:
    """Take the lock (flock(2)) of an open file or directory, within so many seconds; whether it is held now. It goes
    with its process."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        else:
            return True
