"""Files that others read are written beside and renamed over, and are on the disk before anybody acts on them."""

from __future__ import annotations

import os


def write_whole(path: str, content: bytes, mode: int = 0o644) -> None:
    """Replace `path` in one step: temporary name, fsync, rename, fsync of the directory.

    Raises OSError; then the old file is still whole and the temporary one is gone."""
    directory, name = os.path.split(path)
    temporary = f"{directory}/.{name}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    sync_directory(directory)


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
