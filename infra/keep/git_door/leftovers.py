"""What tainted work leaves in the cell's clones: guarded files that were written since and are not as main has them.

When a file was written is the kernel's word (ctime): no program of the cell can set it. What lies in a clone's other
branches, and outside of clones, is not looked at."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator

from infra.shared.branches import MAIN
from infra.shared.clones import with_clones
from infra.shared.folding import folded
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below, Entry, Unseen
from infra.shared.verdicts.guarded import GUARDED, is_guarded

DEPTH = 12
MOST_FILES = 20_000
"""Looked at in one clone."""
SECONDS = 5.0
"""For one clone."""
MOST_FOUND = 2000
MOST_FILE_BYTES = 16 << 20
CLOCK_SECONDS = 60.0
"""By so much the clock may have been set back meanwhile."""


def left_by(places: Paths, git: Git, since: float) -> list[str] | None:
    """Paths as the repository has them; None when it cannot be told."""
    try:
        owner = os.stat(places.bot)
        bot = Below(places.bot, OURS if owner.st_uid == os.geteuid() else Identity(owner.st_uid, owner.st_gid))
        listed = git.raw("ls-tree", "-r", "-z", "--full-tree", f"refs/heads/{MAIN}").decode(errors="surrogateescape")
        clones, unseen = with_clones(bot)
        lines = (line.partition("\t") for line in listed.split("\0") if line)
        mains = {path: words.split(" ")[2] for words, _, path in lines}
        found: dict[str, None] = {}
        for clone in clones:
            found |= dict.fromkeys(_changed(bot, f"{clone}/minifram", mains, since - CLOCK_SECONDS))
    except (OSError, GitError, _Unseen):
        return None
    return None if unseen or len(found) > MOST_FOUND else list(found)


class _Unseen(Exception):
    pass


def _changed(bot: Below, clone: str, mains: dict[str, str], since: float) -> Iterator[str]:
    def may_hold(entry: Entry) -> bool:
        path = entry.path.removeprefix(f"{clone}/")
        return folded(path.partition("/")[0]) in GUARDED and not path.endswith("/__pycache__")

    for entry in bot.walk(clone, depth=DEPTH, most=MOST_FILES, seconds=SECONDS, enter=may_hold):
        if isinstance(entry, Unseen):
            raise _Unseen
        path = entry.path.removeprefix(f"{clone}/")
        if entry.status.st_ctime < since or stat.S_ISDIR(entry.status.st_mode) or not is_guarded(path):
            continue
        if path.endswith(".pyc") or _blob_id(bot, entry) == mains.get(path):
            continue
        yield path


def _blob_id(bot: Below, entry: Entry) -> str:
    """Git's id of the file's content; none for what is no plain file. Raises OSError."""
    if not stat.S_ISREG(entry.status.st_mode) or entry.status.st_size > MOST_FILE_BYTES:
        return ""
    content = bot.whole(entry.path, MOST_FILE_BYTES)
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
