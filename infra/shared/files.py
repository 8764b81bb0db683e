"""Files of the keep and the PM: written beside, synced and renamed over, so that readers see either the old or the new
content, and what was acknowledged is on disk."""

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
    """Sync the directory at `path` and everything in it. Raises OSError."""
    for directory, _, names in os.walk(path):
        for name in names:
            _sync(f"{directory}/{name}", os.O_NOFOLLOW)
        sync_directory(directory)


def make_directories(path: str, mode: int = 0o777) -> None:
    """Create the directory at `path` and its missing parents, and sync each. Raises OSError."""
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
