"""Clones of branches that have done their work: merged into main, all committed, all pushed. They are removed, and
nothing else ever is: what cannot be shown to be elsewhere stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from infra.cell.loop.hop_tools import fetch_all
from infra.cell.runner.home import Home
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.control import TENDING_SECONDS
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError

DEPTH = 4
"""Slashes in the name of a branch whose clone is looked for; a directory that is no clone is not searched deeper."""


def remove_merged(home: Home) -> list[str]:
    """Remove the directories of merged branches and name the branches. Raises GitError, OSError."""
    fetch_all(home.git)
    removed = []
    for branch in list(_branches_with_clones(home.boot.places.bot)):
        if branch in (MAIN, home.boot.branch):
            continue
        home.heart.beat("tidying", TENDING_SECONDS)
        try:
            why_not = why_it_stays(home, branch)
        except GitError as error:
            why_not = str(error)
        if why_not:
            home.log.info("clone.kept", clone=branch, why=why_not)
            continue
        _remove(home.boot.places.bot, branch)
        home.log.info("clone.removed", clone=branch)
        removed.append(branch)
    return removed


def why_it_stays(home: Home, branch: str) -> str:
    """What speaks against removing the clone of `branch`; nothing when it holds nothing that main does not."""
    clone = Git(home.boot.places.checkout(branch), AGENT)
    # A plain directory inside another clone would have git look at that other one.
    if os.path.realpath(clone("rev-parse", "--show-toplevel")) != os.path.realpath(clone.directory):
        return "it is no clone"
    if clone("rev-parse", "--abbrev-ref", "HEAD") != branch:
        return "another branch is checked out"
    if not _is_in(home.git, f"refs/remotes/origin/{branch}", "refs/remotes/origin/main"):
        return "the branch is not merged into main"
    if clone("status", "--porcelain"):
        return "it has uncommitted work"
    for line in clone("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/stash").splitlines():
        commit, ref = line.split(" ", 1)
        if not _is_in(home.git, commit, "refs/remotes/origin/main"):
            return f"{ref} is not in main"
    return ""


def _is_in(git: Git, commit: str, other: str) -> bool:
    try:
        return git.ok("merge-base", "--is-ancestor", commit, other)
    except GitError as error:
        if error.status == 128:  # no such commit here: nobody has pushed it
            return False
        raise


def _branches_with_clones(bot: str, under: str = "", depth: int = DEPTH) -> Iterator[str]:
    """Names of the branches that have a directory with a clone, however many slashes they hold; no link is followed."""
    with os.scandir(os.path.join(bot, under)) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    if under and "minifram" in names and os.path.lexists(os.path.join(bot, under, "minifram", ".git")):
        yield under
    for name in names:
        branch = f"{under}/{name}" if under else name
        if depth and not problem_with_branch(branch):
            yield from _branches_with_clones(bot, branch, depth - 1)


def _remove(bot: str, branch: str) -> None:
    directory = os.path.join(bot, branch)
    others = [other for other in _branches_with_clones(bot, branch) if other != branch]
    shutil.rmtree(os.path.join(directory, "minifram") if others else directory)
    parent = os.path.dirname(branch)
    while parent and not os.listdir(os.path.join(bot, parent)):
        os.rmdir(os.path.join(bot, parent))
        parent = os.path.dirname(parent)
