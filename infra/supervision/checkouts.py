"""The clones that runners start from. Main's is brought exactly to the shared main before each launch; what it
held that is nowhere else is saved to a pushed `rescue/<time>` branch first; when that cannot be pushed, the whole
clone is set aside and a new one made (DESIGN §5). Another branch's clone is the agent's own work and is
only looked at."""

from __future__ import annotations

import glob
import os
import time
from typing import NamedTuple

from infra.contract.branches import MAIN, RESCUE
from infra.contract.places import Places
from infra.repository.git import AGENT, Git, GitError, resolve_commit
from infra.repository.tip import commit_tree


class CheckoutError(Exception):
    """A clone cannot be launched from; the text says which, why and what to do."""


class Ready(NamedTuple):
    commit: str
    rescued: str = ""
    """Where what was saved lies, in words; empty when there was nothing to save."""


class _Status(NamedTuple):
    commit: str
    branch: str
    dirty: bool


def cell_git(places: Places, directory: str) -> Git:
    """Git as the agent: its clones push through the door that its configuration names."""
    return Git(directory, AGENT, {"GIT_CONFIG_GLOBAL": places.cell_git_config})


def ready(places: Places, branch: str, remote_url: str, now_wall: float) -> Ready:
    """Make or check the clone of `branch` and name the commit it will run. Raises CheckoutError."""
    try:
        return _main_ready(places, remote_url, now_wall) if branch == MAIN else _branch_ready(places, branch)
    except GitError as error:
        raise CheckoutError(f"the clone of {branch} is unusable: {error}") from error
    except OSError as error:
        raise CheckoutError(f"the clone of {branch} cannot be reached: {error}") from error


def _branch_ready(places: Places, branch: str) -> Ready:
    checkout = places.checkout(branch)
    if (
        not os.path.isdir(f"{checkout}/.git")
        or os.path.realpath(checkout) != f"{os.path.realpath(places.bot)}/{branch}/minifram"
    ):
        raise CheckoutError(f"there is no clone of {branch} at {checkout}; make one with git clone, then signal again")
    # Not _status, which looks through the whole tree: a hop waits for this.
    commit, _, head = cell_git(places, checkout)("rev-parse", "HEAD", "--symbolic-full-name", "HEAD").partition("\n")
    if head != f"refs/heads/{branch}":
        found = head.removeprefix("refs/heads/") if head != "HEAD" else "no branch"
        raise CheckoutError(f"{checkout} is on {found}, not on {branch}; check that branch out there")
    return Ready(commit)


def _main_ready(places: Places, remote_url: str, now_wall: float) -> Ready:
    wanted = resolve_commit(Git(places.remote), f"refs/heads/{MAIN}")
    if wanted is None:
        raise CheckoutError(f"{places.remote} has no branch main; push one")
    checkout = places.main_checkout
    git = cell_git(places, checkout)
    if not os.path.isdir(f"{checkout}/.git"):
        _set_aside(checkout, now_wall)
        _clone(places, remote_url, checkout)
    _remove_stale_locks(checkout)
    try:
        status = _status(git)
    except GitError:  # a damaged clone: it is kept beside for whoever wants to look, and made anew
        _set_aside(checkout, now_wall)
        _clone(places, remote_url, checkout)
        status = _status(git)
    if status == _Status(wanted, MAIN, dirty=False):
        return Ready(wanted)
    git("fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*")
    rescued = ""
    if status.dirty or not _is_pushed(git):
        try:
            rescued = f"on branch {_rescue(git, status, now_wall)}"
        except GitError as error:  # the door refuses what it would refuse in any push; nothing is lost all the same
            rescued = f"in {_set_aside(checkout, now_wall)}, because it could not be pushed ({error})"
            _clone(places, remote_url, checkout)
            return Ready(wanted, rescued)
    git("checkout", "--quiet", "--force", "-B", MAIN, wanted)
    git("branch", "--quiet", "--set-upstream-to", f"origin/{MAIN}", MAIN)
    git("clean", "--quiet", "--force", "-d")
    return Ready(wanted, rescued)


def _clone(places: Places, remote_url: str, checkout: str) -> None:
    parent = os.path.dirname(checkout)
    os.makedirs(parent, exist_ok=True)
    cell_git(places, parent)("clone", "--quiet", "--branch", MAIN, remote_url, checkout)


def _set_aside(checkout: str, now_wall: float) -> str:
    aside = f"{checkout}.aside-{_stamp(now_wall)}"
    if os.path.lexists(checkout):
        os.rename(checkout, aside)
    return aside


def _status(git: Git) -> _Status:
    fields = git.raw("status", "--porcelain=v2", "--branch", "-z").decode(errors="replace").split("\0")
    header = dict(field[2:].split(" ", 1) for field in fields if field.startswith("# "))
    dirty = any(field and not field.startswith("# ") for field in fields)
    return _Status(header.get("branch.oid", ""), header.get("branch.head", ""), dirty)


def _is_pushed(git: Git) -> bool:
    """Every commit of every local branch, and HEAD, is on some branch of origin."""
    return not git("rev-list", "--max-count=1", "HEAD", "--branches", "--not", "--remotes=origin")


def _rescue(git: Git, status: _Status, now_wall: float) -> str:
    """Push a commit with all that the clone holds and origin does not. Raises GitError."""
    index = os.path.join(git("rev-parse", "--absolute-git-dir"), "rescue-index")
    indexed = git.with_env(GIT_INDEX_FILE=index)
    try:
        indexed("read-tree", "HEAD")
        indexed("add", "--all")
        tree = indexed("write-tree")
    finally:
        if os.path.exists(index):
            os.unlink(index)
    heads = dict.fromkeys([status.commit, *git("for-each-ref", "--format=%(objectname)", "refs/heads").split()])
    commit = commit_tree(git, tree, tuple(heads), "rescue: what the clone of main held and had not pushed")
    name = f"{RESCUE}{_stamp(now_wall)}"
    git("push", "--quiet", "origin", f"{commit}:refs/heads/{name}")
    return name


def _stamp(now_wall: float) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_wall)) + f"{int(now_wall * 1000) % 1000:03d}Z"


def _remove_stale_locks(checkout: str) -> None:
    """Locks of git processes that are gone: nothing of the agent's runs between two runners."""
    for pattern in ("*.lock", "refs/heads/**/*.lock", "refs/remotes/**/*.lock"):
        for path in glob.glob(f"{glob.escape(checkout)}/.git/{pattern}", recursive=True):
            os.unlink(path)
