"""What a push changes on main that only an examination allows, as facts for `decide`; and the request for that
examination, when a push came without one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from infra.keep.git_door.decide import HEADS, MAIN_REF, MainChange, Update
from infra.keep.verdicts import refs, steps
from infra.keep.verdicts.paths import TESTS
from infra.keep.verdicts.trees import key_of
from infra.shared.branches import MIND
from infra.shared.repository.changes import Change
from infra.shared.repository.git import Git, GitError

if TYPE_CHECKING:
    from infra.keep.git_door.inspection import Pushed


def change_of_main(repository: Pushed, old: str, new: str, changed: Mapping[str, Change]) -> MainChange:
    """Raises GitError."""
    git, kept = repository.git, repository.kept
    between = steps.between(git, old, new)[1:]
    is_about_tests = between or any(path.startswith(f"{TESTS}/") for path in changed)
    there = steps.names_in_tests(git, old) if is_about_tests else frozenset[str]()
    early = steps.last_change(git, old, between[0], there) if between else None
    found = MainChange(early=(early.commit, early.path) if early else None)
    first = steps.first_needing(changed.values(), there)
    if not first:
        return found
    status = refs.status_of(kept, key_of(git, new))
    if status and steps.are_alike(kept, status.main, old):
        return found._replace(path=first.path, status=status)
    # A verdict for another main says nothing of what main has got since then, which this would take away.
    return found._replace(path=first.path, branch=_branch_at(git, kept, new))


def ask_for_examinations(repository: Pushed, updates: Sequence[Update]) -> None:
    """For agents that push a merge without having asked: the PM is to find a verdict."""
    for change in (update.main_change for update in updates):
        if change.path and change.status is None and change.branch:
            with contextlib.suppress(GitError, OSError):  # the refusal says what to do without it
                commit = repository.kept("rev-parse", "--verify", f"{HEADS}{change.branch}")
                if refs.has_room(repository.kept, change.branch):
                    refs.ask(repository.kept, change.branch, commit)


def _branch_at(git: Git, kept: Git, new: str) -> str:
    """The branch that `new` merges, or that is at `new` itself; empty when none is."""
    listed = kept("for-each-ref", "--format=%(objectname) %(refname)", HEADS).split("\n")
    branches = [line for line in listed if line[41:] not in (MAIN_REF, f"{HEADS}{MIND}")]
    for commit in reversed(git("rev-list", "--parents", "--max-count=1", new).split()):
        for line in branches:
            if line[:40] == commit:
                return line[41:].removeprefix(HEADS)
    return ""
