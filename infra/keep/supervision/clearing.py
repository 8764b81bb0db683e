"""Finds what could be removed and removes what was chosen: the side effects of `room`. Files of the cell are examined
and removed as the cell, and examined again before removal; each call has a time limit."""

from __future__ import annotations

import functools
import os
import stat
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from infra.keep.limits.room import RESCUES, Clone, Found, Kind, Removal, Rescue, Thing
from infra.keep.supervision import rescue as rescuing
from infra.keep.supervision.checkouts import Cell
from infra.shared.branches import MAIN, RESCUE, problem_with_branch
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import OLDER, REMOVED, Below, Entry, Unseen
from infra.shared.secret_shapes import redacted_and_cut

ENTRIES = 20_000
DEPTH = 5
"""Slashes in the name of a branch whose clone is looked for."""
LOOK_SECONDS = 10.0
"""For all clones together; the watcher blocks for that long."""
REMOVE_SECONDS = 20.0
"""For all removals of one time together."""
OLD_LOGS = 1000
CACHE = ".cache"
_ASIDE = ".aside-"


class Outcome(NamedTuple):
    removal: Removal
    problem: str = ""
    """Why it is still there, or a part of it."""


def look(cell: Cell, running: str, short: bool) -> Found:
    """All that `room.choose` chooses from. Raises OSError, GitError."""
    until = time.monotonic() + LOOK_SECONDS
    bare = Git(cell.places.remote).within(LOOK_SECONDS)
    clones, things = [], []
    if cell.files.is_directory(CACHE):
        things.append(Thing(Kind.CACHE, CACHE, _changed(cell, CACHE)))
    for name, status in _entries(cell.files):
        parent, _, last = name.rpartition("/")
        if last == "minifram":
            if stat.S_ISDIR(status.st_mode) and parent:
                clones.append(_clone(cell, bare, parent, until))
                things += _old_logs(cell, parent, running)
        elif _ASIDE in last:
            things.append(_aside(cell, bare, name, status, until))
        elif last == f"{REMOVED}{status.st_ino}":
            things.append(Thing(Kind.LEFTOVER, name, status.st_ctime))
    return Found(running, short, tuple(clones), tuple(things), _rescues(bare.afresh(LOOK_SECONDS)))


def _entries(bot: Below) -> list[Entry]:
    """What lies in the directories of branches. Raises OSError when there is nothing to look into."""

    def may_be_of_branches(entry: Entry) -> bool:
        return not problem_with_branch(entry.path) and _ASIDE not in entry.path and not entry.path.endswith("/minifram")

    found = list(bot.walk(depth=DEPTH, most=ENTRIES, enter=may_be_of_branches))
    if found and isinstance(found[0], Unseen) and not found[0].path:
        raise OSError(f"{bot.root}: {found[0].why}")
    return [entry for entry in found if isinstance(entry, Entry)]


def _clone(cell: Cell, bare: Git, branch: str, until: float) -> Clone:
    checkout = cell.places.checkout(branch) if not problem_with_branch(branch) else ""
    if not checkout:
        return Clone(branch, 0.0, False, "its directory is not a branch's")
    watched = ("", ".git", ".git/HEAD", ".git/index", ".git/logs/HEAD", ".git/FETCH_HEAD", "logs")
    changed = max(_changed(cell, f"{checkout}/{name}") for name in watched)
    stays, commit = why_it_stays(cell, bare, checkout, until)
    merged = not stays and _is_in(bare, [commit], f"refs/heads/{MAIN}")
    return Clone(branch, changed, merged, stays)


def _changed(cell: Cell, path: str) -> float:
    status = cell.files.status(path)
    return max(status.st_mtime, status.st_ctime) if status else 0.0


def why_it_stays(cell: Cell, bare: Git, checkout: str, until: float) -> tuple[str, str]:
    """What the clone has that the shared repository lacks, or why that cannot be determined; and its commit.

    Ignored files do not count as work. The clone's own record of origin is not trusted. `until` is monotonic."""
    left = until - time.monotonic()
    if left <= 0:
        return "there was no time to look at it", ""
    files = cell.files
    if not files.is_directory(f"{checkout}/.git"):
        return "it is not a clone", ""
    if files.status(f"{checkout}/.git/worktrees") or files.status(f"{checkout}/.git/modules"):
        return "other work trees or repositories hang on it", ""
    git = cell.git(checkout).with_env(GIT_DIR=f"{checkout}/.git", GIT_WORK_TREE=checkout).within(left)
    try:
        found = rescuing.status(git)
        if found.dirty or rescuing.has_hidden_changes(git):
            return "it has uncommitted work", found.commit
        refs = git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        own = [line.split(" ", 1)[0] for line in refs if not line.split(" ", 1)[1].startswith("refs/remotes/")]
        if not _is_in(bare, [found.commit, *own], "--branches", "--tags"):
            return "it has commits that were not pushed", found.commit
    except (GitError, OSError) as error:
        return f"it cannot be looked through ({redacted_and_cut(str(error), 200)})", ""
    return "", found.commit


def _is_in(bare: Git, commits: list[str], *others: str) -> bool:
    """Whether the shared repository has all of them on one of these refs."""
    asked = "\n".join(dict.fromkeys(commits)).encode()
    try:
        return bare.raw("rev-list", "--max-count=1", "--stdin", "--not", *others, stdin=asked) == b""
    except GitError as error:
        if error.status == 128:  # there is no such commit
            return False
        raise


def _aside(cell: Cell, bare: Git, name: str, status: os.stat_result, until: float) -> Thing:
    """It was set aside when its name last changed (ctime)."""
    path = f"{cell.places.bot}/{name}"
    stays = why_it_stays(cell, bare, path, until)[0]
    return Thing(Kind.ASIDE, name, status.st_ctime, stays)


def _old_logs(cell: Cell, branch: str, running: str) -> list[Thing]:
    """Old logs of inactive branches; those of main and of the active branch may explain a recent failure."""
    if branch in (MAIN, running):
        return []
    where = f"{branch}/minifram/logs"
    return [
        Thing(Kind.LOG, entry.path, entry.status.st_mtime)
        for entry in cell.files.walk(where, depth=0, most=OLD_LOGS, enter=lambda _: False)
        if isinstance(entry, Entry) and entry.path.endswith(OLDER) and stat.S_ISREG(entry.status.st_mode)
    ]


def _rescues(bare: Git) -> tuple[Rescue, ...]:
    shown = "--format=%(objectname) %(committerdate:unix) %(refname:lstrip=2)"
    lines = [line.split(" ", 2) for line in bare("for-each-ref", shown, f"refs/heads/{RESCUE}").splitlines()]
    many = len(lines) > RESCUES  # otherwise it makes no difference
    others = (f"--exclude={RESCUE}*", "--branches")
    return tuple(
        Rescue(name, commit, float(made or 0), many and _is_in(bare, [commit], *others)) for commit, made, name in lines
    )


def remove(removals: Iterable[Removal], cell: Cell) -> list[Outcome]:
    """Remove these if they have not changed since. Never raises; each has its outcome."""
    until = time.monotonic() + REMOVE_SECONDS
    return [Outcome(removal, _problem(functools.partial(_remove, removal, cell, until))) for removal in removals]


def _problem(act: Callable[[], str]) -> str:
    try:
        return act()
    except (OSError, GitError) as error:
        return redacted_and_cut(str(error), 300) or type(error).__name__


def _remove(removal: Removal, cell: Cell, until: float) -> str:
    if time.monotonic() > until:
        return "the rest goes the next time"
    bare = Git(cell.places.remote).within(LOOK_SECONDS)
    if removal.kind is Kind.RESCUE:
        update_refs(bare, f"delete refs/heads/{removal.name} {removal.commit}")
        return ""
    name = removal.name
    if removal.kind is Kind.CLONE:
        name = f"{removal.name}/minifram"
    if removal.kind in (Kind.CLONE, Kind.ASIDE):
        stays = why_it_stays(cell, bare, f"{cell.places.bot}/{name}", until)[0]
        if stays:
            return f"it stays after all: {stays}"
    files = cell.files
    if removal.kind is Kind.CLONE and (status := files.status(name)):  # so that half a clone never stands there
        gone = f"{REMOVED}{status.st_ino}"
        files.rename(name, gone)
        name = f"{removal.name}/{gone}"
    files.remove(name, until - time.monotonic())
    parent = removal.name if removal.kind is Kind.CLONE else ""
    while parent and files.remove_empty(parent):  # the directories that held only this clone
        parent = os.path.dirname(parent)
    return ""
