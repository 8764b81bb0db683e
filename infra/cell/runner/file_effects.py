"""Whether a step changed a file or made a commit, wherever the agent keeps such: in its clones, its home (among
them) and, in a container, in /tmp, which is its alone there. Logs, caches and git's own bookkeeping are no effects."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator

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
    """Of one run. A file that is written again as it was is no effect."""

    def __init__(self, bot: str) -> None:
        self._roots = (bot, "/tmp") if bot == CONTAINER.bot else (bot,)  # noqa: S108
        self._known: dict[str, str] = {}
        self._since_ns = 0
        self.mark()

    def mark(self) -> None:
        """A step begins."""
        self._since_ns = time.time_ns() - SLACK_NS

    def changed(self) -> bool:
        """Whether something is other than before the step, as far as that can be seen."""
        entries = touched = 0
        news = False
        for root in self._roots:
            for path, status, is_directory in _below(root):
                entries += 1
                if status.st_ctime_ns >= self._since_ns:
                    touched += 1
                    digest = _digest(path, status, is_directory)
                    news = self._known.get(path) != digest or news
                    self._known[path] = digest
                if entries > MOST_ENTRIES or touched > MOST_CHANGED:
                    return True
        return news


def _below(root: str) -> Iterator[tuple[str, os.stat_result, bool]]:
    """All that counts below a directory, but not the directory itself."""
    waiting = [(root, False)]
    while waiting:
        directory, in_git = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            if in_git and entry.name not in IN_GIT and not _is_ref(entry):
                continue
            if not in_git and (entry.name in NO_EFFECTS or _is_log(entry)):
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


def _is_log(entry: os.DirEntry[str]) -> bool:
    """The runner writes there itself."""
    return entry.path.endswith("/minifram/logs")


def _is_ref(entry: os.DirEntry[str]) -> bool:
    """A branch or a tag of the agent's own; what it knows of the shared repository changes by looking."""
    return "/refs/heads/" in entry.path or "/refs/tags/" in entry.path


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
