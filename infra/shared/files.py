"""The keep's and the PM's own files: what others read is written beside and renamed over, and on the disk before anyone
acts on it."""

from __future__ import annotations

import contextlib
import os

from infra.shared.safe_files import Below


def write_whole(path: str, content: bytes, mode: int = 0o644) -> None:
    """Replace `path`, in a directory that is ours, in one step; on the disk when this returns. A link is replaced
    itself.

    Raises OSError; then the old file is still whole and the temporary one is gone. (Only when the last step fails, the
    new file is there whole, but a power cut may take it back.)"""
    directory, name = os.path.split(path)
    Below(directory or os.curdir).write(name, content, mode)


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
        with contextlib.suppress(FileExistsError):  # another process was quicker
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
