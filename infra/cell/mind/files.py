"""The files of the clone that are searched, with stamps by which a change is seen."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Final

from infra.cell.mind.index import FolderSeen
from infra.cell.mind.rows import FOLDERS, kind_of
from infra.shared.mind import layout

_ADDED_TO: Final = (layout.ARCHIVE, layout.DAILY, layout.WEEKLY, layout.COMPLETED)
"""Files of these come and go, or are replaced: each of that changes the folder's own stamp."""
_FRESH_NS: Final = 50_000_000
"""A stamp that is not older than this when it is taken may hide a change that comes right after: twice a tick of the
kernel's coarse clock."""
MOST_FOLDERS, DEEPEST = 2_000, 8


class CloneFiles:
    """Below `root`. Follows no link, and waits for no pipe."""

    def __init__(self, root: str) -> None:
        self._root = root

    def changed(self, before: Mapping[str, str]) -> Iterator[FolderSeen]:
        """All folders, but those of which only a change of the folder itself tells when that has not changed."""
        seen = set[str]()
        waiting = [(folder, 0) for folder in FOLDERS]
        waiting += [(path, DEEPEST) for path in before if path not in FOLDERS]  # what is below is known
        while waiting and len(seen) < MOST_FOLDERS:
            folder, depth = waiting.pop()
            if folder in seen:
                continue
            seen.add(folder)
            try:
                stamp = _stamp(os.lstat(f"{self._root}/{folder}"))
                if before.get(folder) == stamp and layout.is_below(folder, _ADDED_TO):
                    continue
                files, below = self._look(folder)
            except (FileNotFoundError, NotADirectoryError):
                if folder in before:
                    yield FolderSeen(folder, "", {})
                continue
            if depth < DEEPEST:
                waiting += [(each, depth + 1) for each in below]
            yield FolderSeen(folder, stamp, files)

    def _look(self, folder: str) -> tuple[dict[str, str], list[str]]:
        """Stamps of its files, and the folders in it. Raises OSError; NotADirectoryError for a link."""
        if stat.S_ISLNK(os.lstat(f"{self._root}/{folder}").st_mode):
            raise NotADirectoryError
        files, below = dict[str, str](), list[str]()
        with os.scandir(f"{self._root}/{folder}") as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    below.append(path)
                elif kind_of(path) and entry.is_file(follow_symlinks=False) and _is_utf8(path):
                    files[path] = _stamp(entry.stat(follow_symlinks=False))
        return files, below

    def read(self, path: str, most: int) -> bytes:
        return read_regular(f"{self._root}/{path}", most)


def read_regular(path: str, most: int) -> bytes:
    """Up to so many bytes of a regular file. Raises OSError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no regular file")
        return file.read(most)


def _stamp(status: os.stat_result) -> str:
    """Another one after each change. One that is too fresh to be sure of is never the same again."""
    age = time.time_ns() - status.st_ctime_ns
    unsure = f" {time.monotonic_ns()}" if 0 <= age < _FRESH_NS else ""
    return f"{status.st_ino} {status.st_size} {status.st_ctime_ns}{unsure}"


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
