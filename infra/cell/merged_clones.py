"""Clones of branches that main has taken in are removed at the start of a run. One that holds anything that origin
lacks stays, and so does one that was touched within a day."""

from __future__ import annotations

import contextlib
import os
import shutil
import time

from infra.cell.cell import Cell
from infra.cell.clone_git import CloneGit
from infra.cell.clones import with_clones
from infra.shared.branches import MAIN
from infra.shared.repository.git import GitError
from infra.shared.safe_files import Below

QUIET_SECONDS = 86_400.0
_OTHER_REPOSITORIES = ("worktrees", "modules")
_GITLINK = "160000"


def remove_merged(context: Cell, main: str) -> None:
    """`main` is the commit of main, which the runner's own clone has. Never raises: what cannot be removed stays."""
    places, pushed = context.boot.places, None
    for branch in set(with_clones(Below(places.bot))) - {MAIN, context.boot.branch}:
        try:
            clone = places.checkout(branch)
            if not _is_quiet(clone):
                continue
            if pushed is None:
                listed = context.git("ls-remote", context.boot.remote_url).splitlines()
                pushed = {line.partition("\t")[0] for line in listed}
            if _is_merged(context, clone, main, pushed):
                shutil.rmtree(clone)
                context.log.info("clone.removed", branch=branch, why="main has all of it")
                with contextlib.suppress(OSError):
                    os.removedirs(os.path.dirname(clone))  # those that held nothing else
        except (GitError, OSError, ValueError) as error:
            context.log.warning("clone.left", branch=branch, error=str(error))


def _is_quiet(clone: str) -> bool:
    """Git writes beside its index, whatever it changes. Raises OSError."""
    git = f"{clone}/.git"
    is_alone = os.path.isdir(git) and not any(os.path.lexists(f"{git}/{name}") for name in _OTHER_REPOSITORIES)
    return is_alone and max(os.lstat(path).st_mtime for path in (clone, git)) < time.time() - QUIET_SECONDS


def _is_merged(context: Cell, clone: str, main: str, pushed: set[str]) -> bool:
    """Nothing changed, and main has the commit and all that was not pushed. Raises GitError."""
    git = CloneGit(clone, context.boot.places, context.boot.remote_url).with_env(GIT_OPTIONAL_LOCKS="0")
    files = git("ls-files", "-v", "--stage").splitlines()
    if any(line[:1] != "H" or line[2:].startswith(_GITLINK) for line in files) or git("status", "--porcelain"):
        return False
    refs = (line.split(" ") for line in git("for-each-ref", "--format=%(objectname) %(refname)").splitlines())
    own = {commit for commit, name in refs if not name.startswith("refs/remotes/")} - pushed
    asked = "\n".join(own | {git("rev-parse", "HEAD")}).encode()
    try:
        return not context.git("rev-list", "--max-count=1", "--stdin", "--not", main, stdin=asked)
    except GitError as error:
        if error.status == 128:  # our clone has no such commit
            return False
        raise
