"""The clones of branches in the agent's directory. Those that main has taken in are removed at the start of a run; one
that holds what origin lacks stays, and so does one that was touched within a day. Not looked for: a change that git was
told not to look at, and commits inside a submodule."""

from __future__ import annotations

import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

from infra.shared.branches import MAIN, MAX_PARTS, MIND
from infra.shared.paths import ASIDE
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below, Entry

if TYPE_CHECKING:
    from infra.cell.cell import Cell

QUIET_SECONDS = 86_400.0
_MOST_LOOKED_AT = 20_000


def with_clones(bot: Below) -> list[str]:
    """The branches that have a directory `<branch>/minifram`, as their names stand there."""

    def may_hold_clones(entry: Entry) -> bool:
        last = entry.path.rpartition("/")[2]
        return last != "minifram" and not last.startswith((".", ASIDE)) and entry.path != MIND

    found: list[str] = []
    for entry in bot.walk(depth=MAX_PARTS, most=_MOST_LOOKED_AT, enter=may_hold_clones):
        if isinstance(entry, Entry) and entry.path.endswith("/minifram") and stat.S_ISDIR(entry.status.st_mode):
            found.append(entry.path.removesuffix("/minifram"))
    return sorted(found)


def remove_merged(cell: Cell, main: str) -> None:
    """`main` is the commit of main, which the runner's own clone has. Never raises: what cannot be removed stays."""
    places = cell.boot.places
    for branch in set(with_clones(Below(places.bot))) - {MAIN, cell.boot.branch}:
        try:
            clone = places.checkout(branch)
            if _is_quiet(clone) and _is_merged(cell, clone, main):
                shutil.rmtree(clone)
                cell.log.info("clone.removed", branch=branch, why="main has all of it")
        except (GitError, OSError, ValueError) as error:
            cell.log.warning("clone.left", branch=branch, error=str(error))


def _is_quiet(clone: str) -> bool:
    """Git writes beside its index, whatever it changes. Raises OSError."""
    git = f"{clone}/.git"
    changed = max(os.lstat(path).st_mtime for path in (clone, git))
    return changed < time.time() - QUIET_SECONDS and not os.path.lexists(f"{git}/worktrees")


def _is_merged(cell: Cell, clone: str, main: str) -> bool:
    """Main has its commit, origin all others, and no file was changed. Raises GitError, also for a commit that our
    clone does not have."""
    git = Git(clone, AGENT)
    if git("status", "--porcelain") or git("rev-list", "--max-count=1", "--all", "HEAD", "--not", "--remotes"):
        return False
    return cell.git.ok("merge-base", "--is-ancestor", git("rev-parse", "HEAD"), main)
