"""Reads the PM's files of the mind: on the branch by git, in the clone as the cell."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable

from infra.keep.mind.drift import ODD
from infra.keep.mind.kept import Baseline
from infra.shared.branches import MIND
from infra.shared.identity import Identity
from infra.shared.mind.layout import PM_ONLY
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from infra.shared.safe_files import Below, Unseen

MOST_FILES, DEPTH, WALK_SECONDS = 1000, 8, 3.0
MOST_BYTES = 2 << 20
"""Of one file: a longer one is not read, and no file of the PM's."""
MOST_READ_BYTES = 32 << 20
"""Of all files of the clone."""


def entries_on_branch(git: Git, commit: str) -> str:
    """Differs when one of these files does; one call, where `on_branch` takes one for each. Raises GitError."""
    return git("ls-tree", "-z", "--full-tree", commit, "--", *PM_ONLY)


def on_branch(git: Git, commit: str, at: str) -> Baseline:
    """Raises GitError."""
    listed = git.raw("ls-tree", "-r", "-z", "--full-tree", commit, "--", *PM_ONLY).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in listed.split("\0") if line)
    blobs = {path: words.split(" ") for words, _, path in lines}
    asked = [(path, id) for path, (mode, kind, id) in blobs.items() if kind == "blob" and mode != "120000"][:MOST_FILES]
    found = _hashes(git, {id for _, id in asked})
    files = dict.fromkeys(blobs, ODD) | {path: found[id] for path, id in asked}
    # msgspec writes UTF-8 alone.
    return Baseline(commit, at, {path.encode(errors="replace").decode(): hash for path, hash in files.items()})


def _hashes(git: Git, ids: Iterable[str]) -> dict[str, str]:
    return {id: hashlib.sha256(git.raw("cat-file", "blob", id)).hexdigest() for id in ids}


def last_changed_by_agent(git: Git, commit: str, paths: Iterable[str]) -> list[str]:
    """Those of the paths that a commit of the agent changed last. Raises GitError."""

    def committer(path: str) -> str:
        return git("--literal-pathspecs", "log", "-1", "--format=%ce", commit, "--", path)

    return [path for path in list(paths)[:MOST_FILES] if committer(path) == AGENT.email]


def in_clone(places: Paths, cell: Identity) -> dict[str, str] | None:
    """None when there is no clone. Links are not followed: in the place of the clone, or of a file, one is ODD."""
    bot, found = Below(places.bot, cell), dict[str, str]()
    top = bot.status(MIND)
    if top is None:
        return None
    if not stat.S_ISDIR(top.st_mode):
        return dict.fromkeys(PM_ONLY, ODD)
    read = _Reading(bot)
    for root in PM_ONLY:
        path = f"{MIND}/{root}"
        status = bot.status(path)
        if status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            found[root] = read.hash(path, status)
            continue
        for entry in bot.walk(path, depth=DEPTH, most=MOST_FILES, seconds=WALK_SECONDS):
            name = entry.path.removeprefix(f"{MIND}/").encode(errors="replace").decode()
            if isinstance(entry, Unseen):
                found[name] = ODD
            elif not stat.S_ISDIR(entry.status.st_mode):
                found[name] = read.hash(entry.path, entry.status)
    return found if found or bot.status(f"{MIND}/.git") else None  # not made yet, or to be made again


class _Reading:
    """So much of the cell's files is read in one look, and no more: the watcher waits."""

    def __init__(self, bot: Below) -> None:
        self._bot, self._left = bot, MOST_READ_BYTES

    def hash(self, path: str, status: os.stat_result) -> str:
        self._left -= status.st_size
        if not stat.S_ISREG(status.st_mode) or self._left < 0:
            return ODD
        try:
            return hashlib.sha256(self._bot.whole(path, MOST_BYTES)).hexdigest()
        except OSError:
            return ODD
