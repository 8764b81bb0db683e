"""The clones of branches in the agent's directory. Those that main has taken in are removed at the start of a run; one
that holds anything that origin lacks stays, and so does one that was touched within a day."""

from __future__ import annotations

import contextlib
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
_OTHER_REPOSITORIES = ("worktrees", "modules")
_GITLINK = "160000"


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
    places, pushed = cell.boot.places, None
    for branch in set(with_clones(Below(places.bot))) - {MAIN, cell.boot.branch}:
        try:
            clone = places.checkout(branch)
            if not _is_quiet(clone):
                continue
            if pushed is None:
                listed = cell.git("ls-remote", cell.boot.remote_url).splitlines()
                pushed = {line.partition("\t")[0] for line in listed}
            if _is_merged(cell, clone, main, pushed):
                shutil.rmtree(clone)
                cell.log.info("clone.removed", branch=branch, why="main has all of it")
                with contextlib.suppress(OSError):
                    os.removedirs(os.path.dirname(clone))  # those that held nothing else
        except (GitError, OSError, ValueError) as error:
            cell.log.warning("clone.left", branch=branch, error=str(error))


def _is_quiet(clone: str) -> bool:
    """Git writes beside its index, whatever it changes. Raises OSError."""
    git = f"{clone}/.git"
    is_alone = os.path.isdir(git) and not any(os.path.lexists(f"{git}/{name}") for name in _OTHER_REPOSITORIES)
    return is_alone and max(os.lstat(path).st_mtime for path in (clone, git)) < time.time() - QUIET_SECONDS


def _is_merged(cell: Cell, clone: str, main: str, pushed: set[str]) -> bool:
    """Nothing changed, and main has the commit and all that was not pushed. Raises GitError."""
    git = Git(clone, AGENT)
    files = git("ls-files", "-v", "--stage").splitlines()
    if any(line[:1] != "H" or line[2:].startswith(_GITLINK) for line in files) or git("status", "--porcelain"):
        return False
    refs = (line.split(" ") for line in git("for-each-ref", "--format=%(objectname) %(refname)").splitlines())
    own = {commit for commit, name in refs if not name.startswith("refs/remotes/")} - pushed
    asked = "\n".join(own | {git("rev-parse", "HEAD")}).encode()
    try:
        return not cell.git("rev-list", "--max-count=1", "--stdin", "--not", main, stdin=asked)
    except GitError as error:
        if error.status == 128:  # our clone has no such commit
            return False
        raise
