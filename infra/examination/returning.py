"""Which versions the agent may roll main back to by itself: only such as have led main, or were examined. Otherwise a
rollback would be a way onto main for a branch that nobody examined."""

from __future__ import annotations

import time

from infra.admission.bounded_git import BoundedGit, TooMuch
from infra.admission.changes import changes
from infra.contract.branches import MAIN
from infra.contract.places import Places
from infra.examination import refs, trees
from infra.examination.paths import TESTS, needs_examination
from infra.repository.durable_refs import update_refs
from infra.repository.git import WATCHER, Git, resolve_commit

SINCE = "refs/minifram/since"
"""Where main was when the keep first looked after examinations: what main went through before proves nothing."""
GOODS = "refs/minifram/good/"
LOOK_SECONDS = 30.0
CHAIN = 10_000
"""Commits of main that are looked back."""


def begin(remote: str) -> None:
    """Raises GitError, OSError."""
    git = Git(remote, WATCHER, {"GIT_DIR": remote})
    main = resolve_commit(git, f"refs/heads/{MAIN}")
    if main and resolve_commit(git, SINCE) is None:
        update_refs(git, f"update {SINCE} {main}")


def problem(places: Places, seen: str, made: str, target: str) -> str:
    """Why main may not move from `seen` to `made`, which has the tree of `target`; empty when it may.

    Raises GitError, LookupError."""
    git = BoundedGit(places.remote, time.monotonic() + LOOK_SECONDS, {"GIT_DIR": places.remote})
    try:
        found = changes(git, seen, made)
    except TooMuch:
        raise LookupError(f"{target[:12]} has more files than can be looked through; choose another commit") from None
    listed = git.raw("ls-tree", "-z", "--name-only", "--full-tree", seen, f"{TESTS}/").decode(errors="replace")
    there = frozenset(name.removeprefix(f"{TESTS}/") for name in listed.split("\0") if name)
    differ = (path for path, each in found.items() if needs_examination(path, each.mode_before, each.mode, there))
    path = next(differ, "")
    if not path or _has_led(git, seen, target) or _is_good(git, target):
        return ""
    standing = refs.standing(git, trees.key_of(git, made))
    if standing and standing.passed and not standing.needs_word:
        return ""
    return (
        f"{target[:12]} changes {path!r} and never led main, and the keep has no verdict for it; roll back to a commit "
        "of main's own history, or bootstrap a branch that holds it"
    )


def _has_led(git: Git, seen: str, target: str) -> bool:
    chain = git("rev-list", "--first-parent", f"--max-count={CHAIN}", seen, "--").split()
    since = resolve_commit(git, SINCE)
    return target in (chain[: chain.index(since) + 1] if since in chain else chain)


def _is_good(git: Git, target: str) -> bool:
    return target in git("for-each-ref", "--format=%(objectname)", GOODS).split()
