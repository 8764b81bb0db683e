"""The request `examine`: a runner asks for the examination of its branch, again and again, until it reads how that
ended. Only the watcher makes one."""

from __future__ import annotations

import time

from infra.keep.git_door.context import DoorContext, later, refused
from infra.keep.repository.changed_files import changes
from infra.keep.taint import Taint, problem_with_guarded
from infra.keep.verdicts import refs, trees
from infra.shared.branches import MAIN
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.merge import MergeConflict
from infra.shared.requests import Examination, Examine

GIT_SECONDS = 20.0
OUTAGE_SECONDS = 60.0
"""So old must a verdict be that says nothing of the branch, before it is examined again."""


def examine(context: DoorContext, request: Examine, taint: Taint | None = None) -> Examination:
    """Raises GitError, Refusal."""
    remote, branch = context.places.remote, request.branch
    git = Git(remote, WATCHER, {"GIT_DIR": remote}).within(GIT_SECONDS)
    commit, main = resolve_commit(git, f"refs/heads/{branch}"), resolve_commit(git, f"refs/heads/{MAIN}")
    if main is None or commit is None or commit != request.commit:
        at = f"is at {commit[:12]}" if commit else "is not"
        raise refused(f"the branch {branch} {at} in the repository; push {request.commit[:12]} to it, then ask again")
    try:
        merged = trees.merged(git, main, commit)
        found = refs.verdict_on(git, main, branch, commit, merged)
    except MergeConflict as conflict:
        raise refused(str(conflict)) from None
    is_over = found and (not found.outage or time.time() - found.at <= OUTAGE_SECONDS)
    if found and is_over:
        problem = problem_with_guarded(taint, changes(git, main, merged)) if taint and found.passed else ""
        # The verdict is on a tree, whoever made it; what a tainted agent makes of main needs the PM's word beside it.
        word = (*found.needs_word, problem) if problem else found.needs_word
        return Examination("examined", found.passed, found.words, word, found.text)
    if not refs.has_room(git, branch):
        raise later(f"{refs.MOST_WAITING} examinations are waiting already; ask again when one is over")
    refs.ask(git, branch, commit)
    return Examination("waiting")
