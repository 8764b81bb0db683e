"""Whether a step changed a file or made a commit, wherever the agent keeps such: in its clones, its home (among
them) and, in a container, in /tmp, which is its alone there. Logs, caches and git's own bookkeeping are no effects."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator

from infra.cell.runner.watched_directories import WatchedDirectories
from infra.shared.paths import CONTAINER

NO_EFFECTS = frozenset(
    (
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".cache"),
        *(".signal", ".runner.json"),
    )
)
IN_GIT = frozenset(("HEAD", "refs", "heads", "tags", "packed-refs", "stash"))
MOST_ENTRIES = 50_000
"""Beyond that nobody looks: the step counts as one that had an effect."""
MOST_CHANGED = 200
MOST_BYTES = 1 << 20
SLACK_NS = 20_000_000
"""The kernel's clock for files is a tick behind."""


class FileEffects:
    """Of one run. A file that is written again as it was is no effect.

    The first look goes through all files; from then on the kernel says which to look at, as far as it can."""

    def __init__(self, bot: str) -> None:
        # By their real paths: a link at the end of one would not be followed, and so not watched.
        self._roots = tuple(map(os.path.realpath, (bot, "/tmp") if bot == CONTAINER.bot else (bot,)))  # noqa: S108
        self._known: dict[str, str] = {}
        self._since_ns = 0
        self._watched: WatchedDirectories | None = None
        self._in_git: dict[str, bool] = {}
        """The directories that are watched, and whether they are git's."""
        self._may_watch = True
        self.mark()

    def mark(self) -> None:
        """A step begins."""
        self._since_ns = time.time_ns() - SLACK_NS
        # What changed between two steps is nobody's effect.
        if self._watched and self._touched(self._watched) is None:
            self._watched = None

    def changed(self) -> bool:
        """Whether something is other than before the step, as far as that can be seen."""
        touched = self._touched(self._watched) if self._watched else None
        if touched is None:
            return self._changed_anywhere()
        if len(touched) > MOST_CHANGED:
            return True
        news = False
        for path in touched:
            try:
                status = os.lstat(path)
            except OSError:  # it came and went; its directory tells
                continue
            news = self._is_news(path, status, stat.S_ISDIR(status.st_mode)) or news
        return news

    def _changed_anywhere(self) -> bool:
        watched = self._new_watch()
        entries = touched = 0
        news = False
        for root in self._roots:
            for path, status, is_directory in self._below(root, False, watched):
                entries += 1
                if status.st_ctime_ns >= self._since_ns:
                    touched += 1
                    news = self._is_news(path, status, is_directory) or news
                if entries > MOST_ENTRIES or touched > MOST_CHANGED:
                    return True
        self._may_watch = watched is not None and watched.is_open
        self._watched = watched if self._may_watch else None
        return news

    def _new_watch(self) -> WatchedDirectories | None:
        if self._watched:
            self._watched.close()
        self._watched, self._in_git = None, {}
        try:
            return WatchedDirectories() if self._may_watch else None
        except OSError:  # none are left: each step is a look at all files
            return None

    def _touched(self, watched: WatchedDirectories) -> set[str] | None:
        """Paths that may be other than before; None when all have to be looked at."""
        changes = watched.changes()
        found: set[str] = set()
        for directory, name, is_listed, is_directory in set(changes or ()):
            in_git = self._in_git.get(directory, False)
            path = os.path.join(directory, name)
            if _is_left_out(name, path, in_git):
                continue
            if name != ".git" or in_git:
                found.add(path)
                if is_listed and directory not in self._roots and not self._is_git_itself(directory):
                    found.add(directory)
            if is_directory and is_listed and not os.path.islink(path):  # what was a directory may be a link by now
                found.update(below for below, _, _ in self._below(path, in_git or name == ".git", watched))
        return None if changes is None or not watched.is_open else found

    def _is_git_itself(self, directory: str) -> bool:
        return self._in_git.get(directory, False) and os.path.basename(directory) == ".git"

    def _is_news(self, path: str, status: os.stat_result, is_directory: bool) -> bool:
        digest = _digest(path, status, is_directory)
        is_news = self._known.get(path) != digest
        self._known[path] = digest
        return is_news

    def _below(
        self, root: str, in_git: bool, watched: WatchedDirectories | None
    ) -> Iterator[tuple[str, os.stat_result, bool]]:
        """All that counts below a directory, but not the directory itself; each directory is watched before it is
        looked into."""
        waiting = [(root, in_git)]
        while waiting:
            directory, in_git = waiting.pop()
            if watched and watched.is_open:
                watched.add(directory)
                self._in_git[directory] = in_git
            try:
                entries = list(os.scandir(directory))
            except OSError:
                continue
            for entry in entries:
                if _is_left_out(entry.name, entry.path, in_git):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                    is_directory = entry.is_dir(follow_symlinks=False)
                except OSError:
                    continue
                if is_directory:
                    waiting.append((entry.path, in_git or entry.name == ".git"))
                if not in_git and entry.name == ".git":
                    continue
                yield entry.path, status, is_directory


def _is_left_out(name: str, path: str, in_git: bool) -> bool:
    if in_git:
        return name not in IN_GIT and not _is_ref(path)
    return name in NO_EFFECTS or _is_log(path)


def _is_log(path: str) -> bool:
    """The runner writes there itself."""
    return path.endswith(("/minifram/logs", "/mind/logs"))


def _is_ref(path: str) -> bool:
    """A branch or a tag of the agent's own; what it knows of the shared repository changes by looking."""
    return "/refs/heads/" in path or "/refs/tags/" in path


def _digest(path: str, status: os.stat_result, is_directory: bool) -> str:
    try:
        if is_directory:
            names = sorted(name for name in os.listdir(path) if name not in NO_EFFECTS)
            return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()
        if os.path.islink(path):
            return os.readlink(path)
        if status.st_size <= MOST_BYTES and os.path.isfile(path):
            with open(path, "rb") as file:
                return hashlib.sha256(file.read(MOST_BYTES)).hexdigest() + str(status.st_mode)
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"
