"""Which versions the agent may roll main back to by itself: only such as have led main, or were examined. Otherwise a
rollback would be a way onto main for a branch that nobody examined."""

from __future__ import annotations

import time
from collections.abc import Collection

from infra.keep.taint import look, problem_with_guarded
from infra.keep.verdicts import refs, steps, trees
from infra.shared.branches import MAIN
from infra.shared.control import KNOWN_GOOD
from infra.shared.paths import Paths
from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.changes import changes
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitLimits, TooMuch, resolve_commit

SINCE = "refs/minifram/since"
"""Where main was when the keep first looked after examinations: what main went through before proves nothing."""
LOOK_SECONDS = 30.0
CHAIN = 10_000
"""Commits of main that are looked back."""


def begin(remote: str) -> None:
    """Raises GitError, OSError."""
    git = Git(remote, WATCHER, {"GIT_DIR": remote})
    main = resolve_commit(git, f"refs/heads/{MAIN}")
    if main and resolve_commit(git, SINCE) is None:
        update_refs(git, f"update {SINCE} {main}")


def problem(places: Paths, seen: str, made: str, target: str, web_taints: bool = True) -> str:
    """Why main may not move from `seen` to `made`, which has the tree of `target`; empty when it may.

    Raises GitError, LookupError."""
    git = Git(places.remote, env={"GIT_DIR": places.remote}, limits=GitLimits(answer_bytes=32 << 20)).within(
        LOOK_SECONDS
    )
    try:
        found = changes(git, seen, made)
    except TooMuch:
        raise LookupError(f"{target[:12]} has more files than can be looked through; choose another commit") from None
    there = steps.names_in_tests(git, seen)
    change = steps.first_needing(found.values(), there)
    taint = look(places.var, git, time.time()) if web_taints else None
    if tainted := problem_with_guarded(taint, found):
        return f"{tainted}, so the PM rolls back to it: minifram rollback {target[:12]}"
    good = git("for-each-ref", "--format=%(objectname)", KNOWN_GOOD).split()
    if not change or target in good or _may_lead(git, made) or _has_led(git, seen, target, there):
        return ""
    return (
        f"{target[:12]} changes {change.path!r}, and the keep has no verdict for it and did not see it lead main; roll "
        "back to a version that has led main, or bootstrap a branch that holds it"
    )


def _has_led(git: Git, seen: str, target: str, there: Collection[str]) -> bool:
    """Whether main went through `target`, and what it is made of was examined or put there by the PM. That a commit is
    on main's line is not enough: where the PM lets main follow a branch without a merge commit, all of the branch's
    commits are."""
    since = resolve_commit(git, SINCE)
    line = git("rev-list", "--first-parent", f"--max-count={CHAIN}", seen, "--").split()
    if since is None or target not in line:
        return False
    goes_on = since in line
    if goes_on and line.index(target) > line.index(since):
        return False
    last = steps.last_change(git, since, target, there)
    if last is None:
        return goes_on  # it is made of what `since` is made of
    return last.committer.lower() != AGENT.email or _may_lead(git, last.commit)


def _may_lead(git: Git, commit: str) -> bool:
    status = refs.status_of(git, trees.key_of(git, commit))
    return bool(status and status.passed and not status.needs_word)
