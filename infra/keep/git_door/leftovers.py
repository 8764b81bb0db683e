"""What tainted work leaves in the cell's clones: guarded files that were written since and are not as main has them,
and those that commits change which nobody pushed.

When a file was written is the kernel's word (ctime): no program of the cell can set it. What lies outside of clones,
and what a clone only lacks, is not looked at."""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Iterator

from infra.shared.branches import MAIN
from infra.shared.clones import with_clones
from infra.shared.folding import folded
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.repository.changes import COMPARE, Change, parse_raw
from infra.shared.repository.git import Git, GitError, GitLimits
from infra.shared.safe_files import Below, Entry, Unseen
from infra.shared.verdicts.guarded import GUARDED, is_guarded

DEPTH = 12
MOST_FILES = 20_000
"""Looked at in one clone."""
SECONDS = 5.0
"""For all clones: the watcher waits."""
MOST_FOUND = 2000
MOST_FILE_BYTES = 16 << 20
MOST_READ_BYTES = 256 << 20
"""Of all files: one that is all holes costs its owner nothing."""
MOST_MAINS = 500
"""So many former versions of main, by first parents, are no leavings."""
CLOCK_SECONDS = 60.0
"""By so much the clock may have been set back meanwhile."""
LIMITS = GitLimits(answer_bytes=32 << 20)
_MAIN_REF = f"refs/heads/{MAIN}"
_REFS = ("--exclude=refs/remotes/*", "--all")
"""With HEAD."""
_DIFFERENCES = ("diff-tree", "--stdin", "--root", "-m", "-r", *COMPARE)

Version = tuple[str, str]
"""A path and git's id of what is there; zeros for nothing."""


def left_by(places: Paths, git: Git, cell: Identity, since: float) -> list[str] | None:
    """Paths as the repository has them; None when it cannot be told. `cell` is whose the clones are."""
    until = time.monotonic() + SECONDS
    try:
        bot = Below(places.bot, cell)
        clones, unseen = with_clones(bot)
        found, mains = dict[Version, None](), _mains(git)
        there, read = git("for-each-ref", "--format=^%(objectname)"), _Reading(bot, MOST_READ_BYTES)
        for clone in clones if not unseen else ():
            place = f"{clone}/minifram"
            found |= dict.fromkeys(_changed(read, place, mains, since - CLOCK_SECONDS, until))
            if bot.status(f"{place}/.git"):
                found |= dict.fromkeys(_committed(Git(f"{places.bot}/{place}", None, None, cell, LIMITS), there, until))
        new = found.keys() - mains.items()
        paths = {path for path, _ in (new - _former_mains(git) if new else new)}
    except (OSError, GitError, ValueError, _Unseen):
        return None
    return None if unseen or len(paths) > MOST_FOUND else sorted(paths)


class _Unseen(Exception):
    pass


class _Reading:
    """What may be read of the cell's files."""

    def __init__(self, bot: Below, most: int) -> None:
        self.bot, self._left = bot, most

    def blob_id(self, entry: Entry) -> str:
        """Git's id of the file's content; none for what is no plain file. Raises OSError, _Unseen."""
        if not stat.S_ISREG(entry.status.st_mode) or entry.status.st_size > MOST_FILE_BYTES:
            return ""
        self._left -= entry.status.st_size
        if self._left < 0:
            raise _Unseen
        content = self.bot.whole(entry.path, MOST_FILE_BYTES)
        return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _changed(read: _Reading, clone: str, mains: dict[str, str], since: float, until: float) -> Iterator[Version]:
    def may_hold(entry: Entry) -> bool:
        path = entry.path.removeprefix(f"{clone}/")
        return folded(path.partition("/")[0]) in GUARDED and not path.endswith("/__pycache__")

    seconds = until - time.monotonic()
    for entry in read.bot.walk(clone, depth=DEPTH, most=MOST_FILES, seconds=seconds, enter=may_hold):
        if isinstance(entry, Unseen) or time.monotonic() > until:
            raise _Unseen
        path = entry.path.removeprefix(f"{clone}/")
        if entry.status.st_ctime < since or stat.S_ISDIR(entry.status.st_mode) or not is_guarded(path):
            continue
        if not path.endswith(".pyc"):
            try:
                yield path, read.blob_id(entry)
            except FileNotFoundError:  # gone by now, as an editor's are
                continue


def _committed(clone: Git, there: str, until: float) -> Iterator[Version]:
    """What commits of the clone change that the shared repository does not have. `there`: what it has, in rev-list's
    words. Raises GitError."""
    git = clone.within(until - time.monotonic())
    commits = git.raw("rev-list", "--ignore-missing", *_REFS, "--stdin", stdin=f"{there}\n".encode())
    if commits:
        yield from _guarded_in(git.raw(*_DIFFERENCES, stdin=commits))


def _mains(git: Git) -> dict[str, str]:
    listed = git.raw("ls-tree", "-r", "-z", "--full-tree", _MAIN_REF).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in listed.split("\0") if line)
    return {path: words.split(" ")[2] for words, _, path in lines}


def _former_mains(git: Git) -> set[Version]:
    """What main had, until lately: a clone may be at that. Raises GitError."""
    commits = git.raw("rev-list", "--first-parent", f"--max-count={MOST_MAINS}", _MAIN_REF, "--")
    return set(_guarded_in(git.raw(*_DIFFERENCES, stdin=commits)))


def _guarded_in(told: bytes) -> Iterator[Version]:
    """The versions of guarded files in the words of `diff-tree --raw -z`."""
    for change in parse_raw(told):
        if isinstance(change, Change) and is_guarded(change.path):
            yield change.path, change.id
