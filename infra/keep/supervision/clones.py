"""The clones in which runners work. None of them is run (`code`), so all are the agent's own, and stay as it left them.

Only main's is replaced: when another level than this served before, so that main does not work among its settings and
hooks, or when git cannot use it. The old one is set aside (`spec/SPEC_SYSTEM.md`)."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from typing import NamedTuple

from infra.keep.services.children import KEEPS
from infra.shared.branches import MAIN
from infra.shared.identity import OURS, Identity
from infra.shared.paths import ASIDE, Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below, Entry

ASIDES_KEPT = 3
LOOK_SECONDS = 10.0
"""A pipe in the place of one of git's files would block git."""
REMOVE_AFTER_SECONDS, REMOVE_SECONDS = 5.0, 60.0
_HALF = "minifram.half-"
_MOST_NAMES, _MOST_REFS, _REFS_DEPTH = 1000, 100_000, 200


class CloneError(Exception):
    """No runner can work there; says where, why and what to do."""


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
        env = {"GIT_CONFIG_GLOBAL": self.places.cell_git_config, KEEPS: self.places.var}
        return Git(directory, AGENT, env, self.identity)


def lacking(cell: Cell, branch: str) -> str:
    """That there is no clone of `branch`; empty when there is. Only a look. Raises OSError."""
    checkout = cell.places.checkout(branch)
    if cell.files.is_directory(f"{checkout}/.git"):
        return ""
    return f"no clone of {branch} at {checkout}; make one with git clone, then signal again"


def problem_with_clone(cell: Cell, branch: str) -> str:
    """Why no runner can work in the clone of `branch`; empty when one can. Raises OSError."""
    if problem := lacking(cell, branch):
        return problem
    checkout = cell.places.checkout(branch)
    try:
        cell.git(checkout).within(LOOK_SECONDS)("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitError as error:
        return f"git cannot read the clone of {branch} at {checkout} ({error}); clone it again, then signal again"
    return ""


def ready_main(cell: Cell, fresh: bool, now_wall: float) -> str:
    """Make main's clone ready, a new one if `fresh` or if there is none that git can read; gives where the old one lies
    now, empty for nowhere. Raises CloneError, OSError."""
    checkout, files = cell.places.main_checkout, cell.files
    parent = os.path.dirname(checkout)
    files.open_up()
    for path in (parent, checkout) if files.is_directory(checkout) else (parent,):
        files.make_directory(path)
    problem, aside = "" if fresh else problem_with_clone(cell, MAIN), ""
    if fresh or problem:
        half = f"{parent}/{_HALF}{secrets.token_hex(4)}"
        try:
            # No file of it is the shared repository's own: what spoils the one must leave the other whole.
            cell.git(parent)(
                "clone", "--quiet", "--template=", "--no-hardlinks", "--branch", MAIN, cell.remote_url, half
            )
        except GitError as error:
            # With no other repository to clone than one that is damaged, it works in what it has.
            if problem := problem or problem_with_clone(cell, MAIN):
                raise CloneError(f"{problem}; a new one cannot be made: {error}") from error
            return ""
        if files.status(checkout):
            aside = f"{parent}/{ASIDE}{_stamp(now_wall)}"
            files.rename(checkout, os.path.basename(aside))
        files.rename(half, os.path.basename(checkout))
    else:
        _remove_stale_locks(Below(f"{checkout}/.git", cell.identity))
    names = sorted(files.names(parent, _MOST_NAMES))
    asides = [f"{parent}/{name}" for name in names if name.startswith(ASIDE)]
    # Also after a watcher that was killed in between: runs go on, and the PM reads what happened, where the logs are.
    if asides and not files.status(f"{checkout}/logs") and files.is_directory(f"{asides[-1]}/logs"):
        with cell.identity.acting():
            os.rename(f"{asides[-1]}/logs", f"{checkout}/logs")
    left = [*asides[:-ASIDES_KEPT], *(f"{parent}/{name}" for name in names if name.startswith(_HALF))]
    if left:  # a tree may be of any size, and the runner starts now
        later = threading.Timer(REMOVE_AFTER_SECONDS, _remove, (files, left))
        later.daemon = True
        later.start()
    return aside


def _remove(files: Below, paths: list[str]) -> None:
    """What a sweep ends, or there is no time for, goes the next time."""
    for path in paths:
        with contextlib.suppress(OSError):
            files.remove(path, REMOVE_SECONDS)


def _stamp(now_wall: float) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_wall)) + f"{int(now_wall * 1000) % 1000:03d}Z"


def _remove_stale_locks(git: Below) -> None:
    """Between two runners no process of the agent runs, and what a dead git has locked would keep the runner from
    seeing main."""
    for entry in git.walk(depth=_REFS_DEPTH, most=_MOST_REFS, enter=lambda entry: entry.path.startswith("refs")):
        if isinstance(entry, Entry) and entry.path.endswith(".lock"):
            git.unlink(entry.path)
