"""Finding what might go, and removing what was chosen: the edge of `room`. What is the cell's is looked at and removed
as the cell, and looked at once more before it goes; each call has a bound on its time."""

from __future__ import annotations

import functools
import itertools
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from infra.keep.limits.room import RESCUES, Clone, Found, Kind, Removal, Rescue, Thing
from infra.keep.supervision import rescue as rescuing
from infra.keep.supervision.checkouts import Cell
from infra.shared.below import Entry, open_directory, walk
from infra.shared.branches import MAIN, RESCUE, problem_with_branch
from infra.shared.cell_files import REMOVED
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError
from infra.shared.trim import MOVED_ASIDE

DIRECTORIES = 2000
DEPTH = 4
"""Slashes in the name of a branch whose clone is looked for."""
LOOK_SECONDS = 10.0
"""For all clones together: the watcher waits for it."""
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
    with cell.identity.acting():
        entries = list(_entries(cell.places.bot))
        things += _caches(cell)
    for name, status in entries:
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


def _entries(bot: str) -> Iterator[tuple[str, os.stat_result]]:
    """What lies in the directories of branches. Raises OSError for the topmost only."""
    waiting, looked = [("", 0)], 0
    while waiting and looked < DIRECTORIES:
        under, depth = waiting.pop()
        looked += 1
        try:
            names = sorted(os.listdir(f"{bot}/{under}" if under else bot))
        except OSError:
            if not under:
                raise
            continue
        for last in names:
            name = f"{under}/{last}" if under else last
            try:
                status = os.lstat(f"{bot}/{name}")
            except OSError:
                continue
            yield name, status
            if stat.S_ISDIR(status.st_mode) and depth <= DEPTH and not problem_with_branch(name) and _ASIDE not in last:
                waiting.append((name, depth + 1))


def _clone(cell: Cell, bare: Git, branch: str, until: float) -> Clone:
    checkout = cell.places.checkout(branch) if not problem_with_branch(branch) else ""
    if not checkout:
        return Clone(branch, 0.0, False, "its directory is no branch's")
    watched = ("", ".git", ".git/HEAD", ".git/index", ".git/logs/HEAD", ".git/FETCH_HEAD", "logs")
    with cell.identity.acting():
        if os.path.realpath(checkout) != f"{os.path.realpath(cell.places.bot)}/{branch}/minifram":
            return Clone(branch, 0.0, False, "a link leads there")
        changed = max(_changed(f"{checkout}/{name}") for name in watched)
    stays, commit = why_it_stays(cell, bare, checkout, until)
    merged = not stays and _is_in(bare, [commit], f"refs/heads/{MAIN}")
    return Clone(branch, changed, merged, stays)


def _changed(path: str) -> float:
    try:
        status = os.lstat(path)
    except OSError:
        return 0.0
    return max(status.st_mtime, status.st_ctime)


def why_it_stays(cell: Cell, bare: Git, checkout: str, until: float) -> tuple[str, str]:
    """What the clone has that the shared repository has not, or why that cannot be seen; and the commit it is at.

    What git ignores there is no work. The clone's own word on what origin has is not taken. `until` is monotonic."""
    left = until - time.monotonic()
    if left <= 0:
        return "there was no time to look at it", ""
    with cell.identity.acting():
        if not all(os.path.isdir(path) and not os.path.islink(path) for path in (checkout, f"{checkout}/.git")):
            return "it is no clone", ""
        if os.path.isdir(f"{checkout}/.git/worktrees") or os.path.isdir(f"{checkout}/.git/modules"):
            return "other work trees or repositories hang on it", ""
    git = cell.git(checkout).with_env(GIT_DIR=f"{checkout}/.git", GIT_WORK_TREE=checkout).within(left)
    try:
        found = rescuing.status(git)
        if found.dirty or rescuing.has_hidden_changes(git):
            return "it has uncommitted work", found.commit
        refs = git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        own = [line.split(" ", 1)[0] for line in refs if not line.split(" ", 1)[1].startswith("refs/remotes/")]
        if not _is_in(bare, [git("rev-parse", "HEAD"), *own], "--branches", "--tags"):
            return "it has commits that were not pushed", found.commit
    except (GitError, OSError) as error:
        return f"it cannot be looked through ({str(error)[:200]})", ""
    return "", found.commit


def _is_in(bare: Git, commits: list[str], *others: str) -> bool:
    """The shared repository has them all, on one of these."""
    asked = "\n".join(dict.fromkeys(commits)).encode()
    try:
        return bare.raw("rev-list", "--max-count=1", "--stdin", "--not", *others, stdin=asked) == b""
    except GitError as error:
        if error.status == 128:  # there is no such commit
            return False
        raise


def _aside(cell: Cell, bare: Git, name: str, status: os.stat_result, until: float) -> Thing:
    """When it was set aside is when its name changed last."""
    path = f"{cell.places.bot}/{name}"
    stays = why_it_stays(cell, bare, path, until)[0]
    return Thing(Kind.ASIDE, name, status.st_ctime, stays)


def _old_logs(cell: Cell, branch: str, running: str) -> list[Thing]:
    """Of branches that do not run: the running one's and main's may tell why something failed just now."""
    if branch in (MAIN, running):
        return []
    where = f"{branch}/minifram/logs"
    found = []
    with cell.identity.acting():
        for entry in itertools.islice(walk(cell.places.bot, where, 0), OLD_LOGS):
            if isinstance(entry, Entry) and entry.name.endswith(MOVED_ASIDE) and stat.S_ISREG(entry.status.st_mode):
                found.append(Thing(Kind.LOG, entry.name, entry.status.st_mtime))
    return found


def _caches(cell: Cell) -> list[Thing]:
    path = f"{cell.places.bot}/{CACHE}"
    return [Thing(Kind.CACHE, CACHE, _changed(path))] if os.path.isdir(path) and not os.path.islink(path) else []


def _rescues(bare: Git) -> tuple[Rescue, ...]:
    shown = "--format=%(objectname) %(committerdate:unix) %(refname:lstrip=2)"
    lines = [line.split(" ", 2) for line in bare("for-each-ref", shown, f"refs/heads/{RESCUE}").splitlines()]
    many = len(lines) > RESCUES  # else nobody asks
    others = (f"--exclude={RESCUE}*", "--branches")
    return tuple(
        Rescue(name, commit, float(made or 0), many and _is_in(bare, [commit], *others)) for commit, made, name in lines
    )


def remove(removals: Iterable[Removal], cell: Cell) -> list[Outcome]:
    """Remove these, as far as they are still what they were; nothing is raised, each has its outcome."""
    until = time.monotonic() + REMOVE_SECONDS
    return [Outcome(removal, _problem(functools.partial(_remove, removal, cell, until))) for removal in removals]


def _problem(act: Callable[[], str]) -> str:
    try:
        return act()
    except subprocess.TimeoutExpired:
        return f"it takes longer than {REMOVE_SECONDS:g} s; the rest goes the next time"
    except (OSError, GitError, subprocess.SubprocessError) as error:
        return str(error)[:300] or type(error).__name__


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
    parent, _, last = name.rpartition("/")
    with cell.identity.acting():
        directory = open_directory(cell.places.bot, parent or ".")
        try:
            if removal.kind is Kind.CLONE:  # so that half a clone never stands there
                gone = f"{REMOVED}{os.stat(last, dir_fd=directory, follow_symlinks=False).st_ino}"
                os.rename(last, gone, src_dir_fd=directory, dst_dir_fd=directory)
                last = gone
            _rm(directory, last, cell)
        finally:
            os.close(directory)
        if removal.kind is Kind.CLONE:
            _remove_empty(cell.places.bot, parent)
    return ""


def _rm(directory: int, name: str, cell: Cell) -> None:
    """By a program with the cell's rights and a bound on its time: a tree may be of any size. Raises OSError,
    SubprocessError."""
    ended = subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", name],
        cwd=f"/proc/self/fd/{directory}",  # no link in the path can lead it elsewhere
        env={"PATH": "/usr/bin:/bin"},  # the cell may read it
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=REMOVE_SECONDS,
        check=False,
        **cell.identity.for_child,
    )
    if ended.returncode:
        raise OSError(f"rm: {ended.stderr.decode(errors='replace')[:200].strip()}")


def _remove_empty(bot: str, directory: str) -> None:
    """The directories that held only this clone."""
    while directory:
        try:
            os.rmdir(f"{bot}/{directory}")
        except OSError:  # others are in it
            return
        directory = os.path.dirname(directory)
