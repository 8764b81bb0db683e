"""A clone of the mind that git can work in, whatever was done to it. Files are never lost by it: what git cannot use is
set aside in `scratch/`, and the work tree stays as it is."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from typing import Final

from infra.cell.mind.mind import MindContext
from infra.shared.branches import MIND
from infra.shared.mind.layout import SCRATCH
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.safe_files import Below

LOCK_AGE_SECONDS: Final = 10.0
"""A lock of git's that is older was left behind: what the agent started has ended by now."""
_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", f"refs/heads/{MIND}.lock")
_HALFWAY = ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE")
_HALFWAY_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_REMOTE = f"refs/remotes/origin/{MIND}"
_HEAD = f"ref: refs/heads/{MIND}\n".encode()


class BrokenClone(Exception):
    """Git cannot work in it; says why."""


def settle(context: MindContext) -> bool:
    """Whether there is a clone that git can work in; small damage is mended at once. Raises BrokenClone, GitError when
    the machine is short of something, OSError."""
    mind, git = context.places.mind, context.git
    aside = Below(context.places.bot).set_aside(MIND, unless=stat.S_ISDIR)
    if aside:
        context.note("mind.set_aside", at=aside)
    inner = f"{mind}/.git"
    if not os.path.lexists(inner):
        return False
    if os.path.islink(inner) or not os.path.isdir(inner):
        raise BrokenClone(".git is no directory")
    _finish_what_was_left(context, inner)
    try:
        if os.path.realpath(git("rev-parse", "--absolute-git-dir")) != os.path.realpath(inner):
            raise BrokenClone(".git is no repository")
        head = resolve_commit(git, "HEAD")
        if head:
            git.raw("ls-tree", "-r", "--name-only", "-z", head)
            if Below(inner).whole("HEAD", 1 << 10) != _HEAD:
                git("symbolic-ref", "HEAD", f"refs/heads/{MIND}")
                git("update-ref", f"refs/heads/{MIND}", head)
        _mend_index(context, head)
    except GitError as error:
        if error.is_machines:
            raise
        raise BrokenClone(str(error)) from error
    return True


def _mend_index(context: MindContext, head: str | None) -> None:
    git = context.git
    try:
        git.raw("ls-files", "--stage", "-z")
    except GitError as error:
        if error.is_machines:
            raise
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{context.places.mind}/.git/index")
        if head:
            git("read-tree", head)
        context.note("mind.mended", why=f"its index could not be read: {error.stderr.strip()}")


def _finish_what_was_left(context: MindContext, inner: str) -> None:
    """Locks of programs that are gone, and merges that nobody ends: the files stay as they are."""
    for name in _LOCKS:
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(f"{inner}/{name}").st_mtime > LOCK_AGE_SECONDS:
                os.unlink(f"{inner}/{name}")
                context.note("mind.lock_removed", lock=name)
    for name in _HALFWAY:
        with contextlib.suppress(OSError):
            os.unlink(f"{inner}/{name}")
    for name in _HALFWAY_FOLDERS:
        if os.path.isdir(f"{inner}/{name}"):
            shutil.rmtree(f"{inner}/{name}", ignore_errors=True)


def mend(context: MindContext, beside: Git, tip: str | None, why: str) -> None:
    """Make the clone: anew where nothing is, else around the files that are there. `beside` is git where there is no
    repository. Raises ValueError without a branch to clone, GitError, OSError."""
    if tip is None:
        raise ValueError(f"the mind's clone cannot be used ({why}), and the repository has no branch {MIND!r} to clone")
    mind = context.places.mind
    if os.path.isdir(mind) and os.listdir(mind):
        aside = _repository_around(context, tip)
    else:
        aside = ""
        new = f"{context.places.bot}/.{MIND}.new"
        shutil.rmtree(new, ignore_errors=True)  # of a runner that was killed
        options = ("--quiet", "--template=", "--no-tags", "--single-branch", "--branch", MIND)
        beside("clone", *options, "--end-of-options", context.remote_url, new)
        os.rename(new, mind)
    context.note("mind.mended", why=why, aside=aside)


def _repository_around(context: MindContext, tip: str) -> str:
    """Gives where the old one lies now, if there was any."""
    mind, git, aside, known = context.places.mind, context.git, "", ""
    if os.path.lexists(f"{mind}/.git"):
        with contextlib.suppress(OSError, ValueError):
            known = Below(f"{mind}/.git").whole(_REMOTE, 100).decode().strip()
        Below(mind).make_directory(SCRATCH)
        aside = f"{SCRATCH}/broken-git-{time.time_ns()}"
        os.rename(f"{mind}/.git", f"{mind}/{aside}")
    git("init", "--quiet", "--template=", f"--initial-branch={MIND}")
    git("fetch", "--quiet", "--no-tags", "origin", f"+refs/heads/{MIND}:{_REMOTE}")
    base = resolve_commit(git, known) if len(known) == 40 and known.isalnum() else None
    if base and git.ok("merge-base", "--is-ancestor", base, tip):  # else nothing counts as taken out
        git("update-ref", f"refs/heads/{MIND}", base)
        git("read-tree", base)
    return aside
