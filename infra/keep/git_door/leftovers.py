"""What tainted work leaves in the cell's clones: guarded files that were written since and are not as main has them,
and those that commits change which nobody pushed.

When a file was written is the kernel's word (ctime): no program of the cell can set it. What lies outside of clones,
and what a clone only lacks, is not looked at."""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Callable, Iterator

from infra.shared.branches import MAIN, MIND
from infra.shared.clones import with_clones
from infra.shared.folding import folded
from infra.shared.identity import Identity
from infra.shared.mind.layout import OPEN_QUESTIONS, is_below
from infra.shared.paths import Paths
from infra.shared.repository.changes import COMPARE, Change, parse_raw
from infra.shared.repository.git import Git, GitError, GitLimits
from infra.shared.safe_files import Below, Entry, Unseen
from infra.shared.taint.machine import MIND_PREFIX
from infra.shared.taint.mind import is_held_when_left
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
_MAIN_REF, _MIND_REF = f"refs/heads/{MAIN}", f"refs/heads/{MIND}"
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
        found, mains = dict[Version, None](), _tree_of(git, _MAIN_REF)
        there, read = git("for-each-ref", "--format=^%(objectname)"), _Reading(bot, MOST_READ_BYTES)
        for clone in clones if not unseen else ():
            place = f"{clone}/minifram"
            found |= dict.fromkeys(_changed(read, place, _may_hold_guarded, is_guarded, since - CLOCK_SECONDS, until))
            found |= dict.fromkeys(_committed(read.bot, place, cell, there, is_guarded, until))
        new = found.keys() - mains.items()
        paths = {path for path, _ in (new - _former_versions(git, _MAIN_REF, is_guarded) if new else new)}
        paths |= set(_left_in_mind(read, git, cell, there, since - CLOCK_SECONDS, until))
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


def _left_in_mind(read: _Reading, git: Git, cell: Identity, there: str, since: float, until: float) -> Iterator[str]:
    """The same of the mind's clone: paths as the state of taint names them. Raises OSError, GitError, _Unseen."""
    if not read.bot.is_directory(MIND):
        return
    found = dict.fromkeys(_changed(read, MIND, _may_steer, is_held_when_left, since, until))
    found |= dict.fromkeys(_committed(read.bot, MIND, cell, there, is_held_when_left, until))
    if found and git.ok("show-ref", "--verify", "--quiet", _MIND_REF):
        theirs = _tree_of(git, _MIND_REF).items() | _former_versions(git, _MIND_REF, is_held_when_left)
        found = {version: None for version in found if version not in theirs}
    yield from (f"{MIND_PREFIX}{path}" for path, _ in found)


def _may_hold_guarded(path: str) -> bool:
    return folded(path.partition("/")[0]) in GUARDED and not path.endswith("/__pycache__")


def _may_steer(path: str) -> bool:
    return path != ".git" and (is_held_when_left(path) or is_below(OPEN_QUESTIONS, (path,)))


def _changed(
    read: _Reading,
    clone: str,
    may_hold: Callable[[str], bool],
    is_guarded: Callable[[str], bool],
    since: float,
    until: float,
) -> Iterator[Version]:
    def enter(entry: Entry) -> bool:
        return may_hold(entry.path.removeprefix(f"{clone}/"))

    seconds = until - time.monotonic()
    for entry in read.bot.walk(clone, depth=DEPTH, most=MOST_FILES, seconds=seconds, enter=enter):
        if isinstance(entry, Unseen) or time.monotonic() > until:
            raise _Unseen
        path = entry.path.removeprefix(f"{clone}/")
        if entry.status.st_ctime < since or stat.S_ISDIR(entry.status.st_mode) or not is_guarded(path):
            continue
        if not path.endswith(".pyc") and path != ".git":
            try:
                yield path, read.blob_id(entry)
            except FileNotFoundError:  # gone by now, as an editor's are
                continue


def _committed(
    bot: Below, place: str, cell: Identity, there: str, is_guarded: Callable[[str], bool], until: float
) -> Iterator[Version]:
    """What commits of the clone change that the shared repository does not have. `there`: what it has, in rev-list's
    words. Raises GitError."""
    if not bot.status(f"{place}/.git"):
        return
    git = Git(f"{bot.root}/{place}", None, None, cell, LIMITS).within(until - time.monotonic())
    commits = git.raw("rev-list", "--ignore-missing", *_REFS, "--stdin", stdin=f"{there}\n".encode())
    if commits:
        yield from _guarded_in(git.raw(*_DIFFERENCES, stdin=commits), is_guarded)


def _tree_of(git: Git, ref: str) -> dict[str, str]:
    listed = git.raw("ls-tree", "-r", "-z", "--full-tree", ref).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in listed.split("\0") if line)
    return {path: words.split(" ")[2] for words, _, path in lines}


def _former_versions(git: Git, ref: str, is_guarded: Callable[[str], bool]) -> set[Version]:
    """What the branch had, until lately: a clone may be at that. Raises GitError."""
    commits = git.raw("rev-list", "--first-parent", f"--max-count={MOST_MAINS}", ref, "--")
    return set(_guarded_in(git.raw(*_DIFFERENCES, stdin=commits), is_guarded))


def _guarded_in(told: bytes, is_guarded: Callable[[str], bool]) -> Iterator[Version]:
    """The versions of guarded files in the words of `diff-tree --raw -z`."""
    for change in parse_raw(told):
        if isinstance(change, Change) and is_guarded(change.path):
            yield change.path, change.id
