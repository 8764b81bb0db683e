"""The request `examine`: a runner asks for the examination of its branch, again and again, until it reads how that
ended. Only the watcher makes one."""

from __future__ import annotations

import json
import time

from infra.keep.git_door.context import DoorContext, later, refused
from infra.keep.taint import Taint, problem_with_guarded
from infra.keep.verdicts import refs, steps, trees
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.door import Failure
from infra.shared.people import WATCHER
from infra.shared.repository.changes import changes
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.merge import MergeConflict
from infra.shared.requests import Examination, Examine

GIT_SECONDS = 20.0
OUTAGE_SECONDS = 60.0
"""So old must a verdict be that says nothing of the branch, before it is examined again."""


def examine(context: DoorContext, request: Examine, taint: Taint | None = None) -> Examination | Failure:
    """Raises GitError."""
    if problem := problem_with_branch(request.branch):
        return refused(problem)
    remote, branch = context.places.remote, request.branch
    git = Git(remote, WATCHER, {"GIT_DIR": remote}).within(GIT_SECONDS)
    commit, main = resolve_commit(git, f"refs/heads/{branch}"), resolve_commit(git, f"refs/heads/{MAIN}")
    if main is None or commit is None or commit != request.commit:
        at = f"is at {commit[:12]}" if commit else "is not"
        return refused(f"the branch {branch} {at} in the repository; push {request.commit[:12]} to it, then ask again")
    try:
        merged = trees.merged(git, main, commit)
        key = trees.key_of(git, merged)
    except MergeConflict as conflict:
        return refused(str(conflict))
    content = refs.read_verdict(git, key)
    verdict = json.loads(content) if content else {}
    is_over = not verdict.get("outage") or time.time() - verdict.get("at", 0.0) <= OUTAGE_SECONDS
    if verdict and is_over and steps.are_alike(git, verdict["main"], main):
        problem = problem_with_guarded(taint, changes(git, main, merged)) if taint and verdict.get("passed") else ""
        # The verdict is on a tree, whoever made it; what a tainted agent makes of main needs the PM's word beside it.
        more = {"needs_word": [*verdict.get("needs_word", ()), problem]} if problem else {}
        return Examination("examined", verdict | more)
    if not refs.has_room(git, branch):
        return later(f"{refs.MOST_WAITING} examinations are waiting already; ask again when one is over")
    refs.ask(git, branch, commit)
    return Examination("waiting")
