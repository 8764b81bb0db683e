"""The clones that runners start from. Main's is brought exactly to the shared main before each launch; what it held
that is nowhere else is first pushed as a branch `rescue/<time>`. Where that is impossible, or the clone is damaged or
tampered with, the whole clone is set aside and a new one made (`spec/SPEC_SYSTEM.md`). Another branch's clone is the
agent's own work and is only looked at."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from typing import NamedTuple

from infra.keep.services.children import KEEPS_GIT
from infra.keep.supervision import integrity, rescue
from infra.keep.supervision.tampering import tampering
from infra.shared.branches import MAIN
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.safe_files import Below, Entry

ROUNDS = 3
"""A new main may cease to ignore a file that the old one ignored: then it is saved in a second round."""
_GLANCE_SECONDS = 10.0
_MOST_TOLD = 5
_DAMAGED = re.compile("not a tree object|not a valid object|bad object|unable to (read|unpack)|corrupt|missing|inflate")


class CheckoutError(Exception):
    """A clone cannot be launched from; the text says which, why and what to do."""


class Ready(NamedTuple):
    commit: str
    rescued: str = ""
    """Where what was saved lies, in words; empty when there was nothing to save."""


class Cell(NamedTuple):
    """Where the clones are, whose they are, and what they call origin."""

    places: Paths
    remote_url: str
    identity: Identity = OURS

    @property
    def files(self) -> Below:
        return Below(self.places.bot, self.identity)

    def git(self, directory: str) -> Git:
        """Git as the agent: its clones push through the door that its configuration names."""
        env = {"GIT_CONFIG_GLOBAL": self.places.cell_git_config, KEEPS_GIT: self.places.var}
        return Git(directory, AGENT, env, self.identity)


class _Wanted(NamedTuple):
    """The commit that main's clone must be at, as the shared repository has it."""

    commit: str
    listing: bytes | None
    """None when the disk can no longer read it; the clone, which has its own objects, is then used without
    verification."""


def ready(cell: Cell, branch: str, now_wall: float, commit: str = "") -> Ready:
    """Make or check the clone of `branch` and name the commit it will run; main's is brought to `commit`, or to what
    main holds. Raises CheckoutError.

    Everything but the look at the shared main is done as the cell."""
    try:
        wanted = _wanted(cell.places, commit) if branch == MAIN else None
        with cell.identity.acting():
            return _main_ready(cell, wanted, now_wall) if wanted else _branch_ready(cell, branch)
    except (GitError, OSError, RecursionError, ValueError) as error:  # ValueError: no name of a branch
        raise CheckoutError(f"the clone of {branch} cannot be used: {error}") from error


def problem_with_clone(cell: Cell, branch: str) -> str:
    """Why `branch` cannot be launched; empty when it has a clone. Only checks that the clone is there."""
    checkout = cell.places.checkout(branch)
    if cell.files.is_directory(f"{checkout}/.git"):
        return ""
    return f"no clone of {branch} at {checkout}; make one with git clone, then signal again"


def _branch_ready(cell: Cell, branch: str) -> Ready:
    checkout = cell.places.checkout(branch)
    problem = problem_with_clone(cell, branch)
    if problem:
        raise CheckoutError(problem)
    # Not rescue.status, which looks through the whole tree while a hop waits. The time is bounded because a pipe in the
    # place of one of git's files would block git.
    git = cell.git(checkout).within(_GLANCE_SECONDS)
    commit, _, head = git("rev-parse", "HEAD", "--symbolic-full-name", "HEAD").partition("\n")
    if head != f"refs/heads/{branch}":
        found = head.removeprefix("refs/heads/") if head != "HEAD" else "no branch"
        raise CheckoutError(f"{checkout} is on {found}, not on {branch}; check that branch out there")
    return Ready(commit)


def _wanted(places: Paths, commit: str) -> _Wanted:
    shared = Git(places.remote)
    found = commit or resolve_commit(shared, f"refs/heads/{MAIN}")
    if found is None:
        raise CheckoutError(f"{places.remote} has no branch main; push one")
    try:
        return _Wanted(found, integrity.listing(shared, found))
    except GitError as error:
        if not _DAMAGED.search(error.stderr):
            raise
        return _Wanted(found, None)


def _main_ready(cell: Cell, wanted: _Wanted, now_wall: float) -> Ready:
    checkout = cell.places.main_checkout
    cell.files.set_aside(os.path.dirname(checkout), unless=stat.S_ISDIR)
    for path in (cell.places.bot, os.path.dirname(checkout), checkout, f"{checkout}/.git"):
        mode = _mode(path)
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:  # an agent can take its own rights from it
            os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)
    if not (stat.S_ISDIR(_mode(checkout)) and stat.S_ISDIR(_mode(f"{checkout}/.git"))):
        return _replace(cell, wanted.commit, now_wall, "it was no clone")
    # Named outright, so that `core.worktree` in the clone's own configuration cannot point at other files.
    git = cell.git(checkout).with_env(GIT_DIR=f"{checkout}/.git", GIT_WORK_TREE=checkout)
    try:
        found = tampering(f"{checkout}/.git", cell.remote_url, cell.identity)
        if found:
            half = _half_clone(cell)
            found -= tampering(f"{half}/.git", cell.remote_url, cell.identity)  # another git may add settings
            if found:
                what = ", ".join(sorted({each.where for each in found})[:_MOST_TOLD])
                why = f"it holds {what}, which git would follow in main as well"
                return _replace(cell, wanted.commit, now_wall, why, half)
            shutil.rmtree(half)
        _remove_stale_locks(f"{checkout}/.git")
        return _bring_to(git, wanted, now_wall)
    except (GitError, OSError, rescue.CannotSave) as error:
        # The door refuses what it would refuse in any push, or the clone is damaged: it is kept as it is.
        return _replace(cell, wanted.commit, now_wall, f"it could not be pushed or reset ({error})")


def _mode(path: str) -> int:
    """The mode of the file itself (links are not followed); 0 when there is none."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _bring_to(git: Git, wanted: _Wanted, now_wall: float) -> Ready:
    saved: list[str] = []
    for number in range(ROUNDS):
        if wanted.listing is not None and integrity.is_intact(git, wanted.commit, wanted.listing):
            return Ready(wanted.commit, f"on branch {' and '.join(saved)}" if saved else "")
        status = rescue.status(git)
        at_main = (status.commit, status.branch) == (wanted.commit, MAIN)
        if wanted.listing is None and at_main and not status.dirty:
            return Ready(wanted.commit, f"on branch {' and '.join(saved)}" if saved else "")
        git("fetch", "--quiet", "--prune", "origin", "+refs/heads/*:refs/remotes/origin/*")
        _fetch(git, wanted.commit)
        if status.dirty or at_main or rescue.has_hidden_changes(git) or not rescue.is_pushed(git):
            saved.append(rescue.save(git, status, now_wall + number / 1000))
        in_the_way = rescue.would_be_overwritten(git, wanted.commit)
        if in_the_way:
            raise rescue.CannotSave(f"main has a file in the place of {in_the_way}, which is ignored here")
        # A new index: what the clone's own says of a file would keep git from writing it; and with none at all, git
        # would leave the files that main has no more, and the next round would take them for work.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{git.directory}/.git/index")
        if resolve_commit(git, "HEAD"):
            git("read-tree", "HEAD")
        # Before main's own rules of what to ignore are there: this deletes just what was saved.
        git("clean", "--quiet", "--force", "-d")
        with contextlib.suppress(GitError):  # ended with 128: no rebase is under way
            git("rebase", "--quit")
        git("checkout", "--quiet", "--force", "--no-track", "-B", MAIN, wanted.commit)
        git("branch", "--quiet", "--set-upstream-to", f"origin/{MAIN}", MAIN)
    raise rescue.CannotSave(f"it is not at main after {ROUNDS} attempts to bring it there")


def _half_clone(cell: Cell) -> str:
    """A new clone beside main's, which is renamed into place so that a partial clone is never used."""
    checkout = cell.places.main_checkout
    parent = os.path.dirname(checkout)
    os.makedirs(parent, exist_ok=True)
    # A fresh name: what lies at a name that can be foreseen was put there, or left by a watcher that was killed.
    half = f"{checkout}.aside-half-{secrets.token_hex(4)}"
    # No file of it is the shared repository's own: what spoils the one must leave the other whole.
    cell.git(parent)("clone", "--quiet", "--no-hardlinks", "--branch", MAIN, cell.remote_url, half)
    return half


def _replace(cell: Cell, wanted: str, now_wall: float, why: str, half: str = "") -> Ready:
    """Replace main's clone; the old one is set aside only once the new one is complete."""
    checkout, half = cell.places.main_checkout, half or _half_clone(cell)
    git = cell.git(half)
    if git("rev-parse", "--verify", "HEAD") != wanted:  # main is not to lead, or has moved meanwhile
        _fetch(git, wanted)
        git("reset", "--quiet", "--hard", wanted)
    if os.path.lexists(checkout):
        aside = f"{checkout}.aside-{rescue.stamp(now_wall)}"
        aside += f"-{secrets.token_hex(4)}" if os.path.lexists(aside) else ""
        os.rename(checkout, aside)
        logs = f"{aside}/logs"
    else:
        aside, logs = _left_aside(cell)
    # Runs go on, and the PM reads what happened, where the logs are. Nobody believes them more than before.
    if cell.files.is_directory(logs):
        with contextlib.suppress(OSError):
            os.rename(logs, f"{half}/logs")
    os.rename(half, checkout)
    return Ready(wanted, f"in {aside}, because {why}" if aside else "")


def _left_aside(cell: Cell) -> tuple[str, str]:
    """The clone that a watcher set aside when it was killed, and the logs, which it may have moved; empty for none."""
    parent = os.path.dirname(cell.places.main_checkout)
    names = sorted(name for name in cell.files.names(parent, 1000) if name.startswith("minifram.aside-"))
    clones = [name for name in names if not name.startswith("minifram.aside-half-")]
    logs = [path for name in names if cell.files.is_directory(path := f"{parent}/{name}/logs")]
    return (f"{parent}/{clones[-1]}", logs[-1]) if clones and logs else ("", "")


def _fetch(git: Git, wanted: str) -> None:
    """Fetch the commit, even when no branch of origin contains it any more."""
    if resolve_commit(git, wanted) is None:
        git("fetch", "--quiet", "origin", wanted)


_REFS_DEPTH, _MOST_REFS = 200, 100_000


def _remove_stale_locks(git_directory: str) -> None:
    """Remove the locks of dead git processes: between two runners, no process of the agent runs."""
    git = Below(git_directory)
    for entry in git.walk(depth=_REFS_DEPTH, most=_MOST_REFS, enter=lambda entry: entry.path.startswith("refs")):
        if isinstance(entry, Entry) and entry.path.endswith(".lock") and not git.unlink(entry.path):
            raise OSError(f"{git_directory}/{entry.path} cannot be removed")
