"""What a push would move main over that only an examination lets it, as facts for `decide`; and the request for that
examination, for whoever pushes without having asked."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from infra.keep.git_door.decide import HEADS, MAIN_REF, Step, Update
from infra.shared.branches import MIND
from infra.shared.repository.changes import Change
from infra.shared.repository.git import Git, GitError
from infra.shared.verdicts import refs, steps
from infra.shared.verdicts.paths import TESTS, needs_examination
from infra.shared.verdicts.trees import key_of

if TYPE_CHECKING:
    from infra.keep.git_door.inspection import Pushed


def step_between(repository: Pushed, old: str, new: str, changed: Mapping[str, Change]) -> Step:
    """Raises GitError, TooMuch."""
    git = repository.git
    between = steps.between(git, old, new)[1:]
    is_about_tests = between or any(path.startswith(f"{TESTS}/") for path in changed)
    there = steps.names_in_tests(git, old) if is_about_tests else frozenset[str]()
    found = steps.last_change(git, old, between[0], there) if between else None
    early = (found.commit, found.path) if found else None
    differ = (path for path, each in changed.items() if needs_examination(path, each.mode_before, each.mode, there))
    path = next(differ, "")
    if not path:
        return Step("", early=early)
    key = key_of(git, new)
    standing = refs.standing(repository.kept, key)
    if standing and not steps.are_alike(repository.kept, standing.main, old):
        standing = None  # it says nothing of what main has got since then, which this would take away
    return Step(path, key, standing, early, "" if standing else _branch_at(git, repository.kept, new))


def ask_for_examinations(repository: Pushed, updates: Sequence[Update]) -> None:
    """For agents that push a merge which nobody has examined: the PM is to find a verdict."""
    for update in updates:
        step = update.step
        if step.path and step.standing is None and step.branch:
            with contextlib.suppress(GitError, OSError):  # the refusal says what to do without it
                commit = repository.kept("rev-parse", "--verify", f"{HEADS}{step.branch}")
                if refs.has_room(repository.kept, step.branch):
                    refs.ask(repository.kept, step.branch, commit)


def _branch_at(git: Git, kept: Git, new: str) -> str:
    """The branch that `new` merges, or that is at `new` itself; empty when none is."""
    candidates = git("rev-list", "--parents", "--max-count=1", new).split()
    for commit in reversed(candidates):
        listed = kept("for-each-ref", "--format=%(objectname) %(refname)", HEADS).split("\n")
        names = [line[41:] for line in listed if line[:40] == commit]
        names = [name.removeprefix(HEADS) for name in names if name not in (MAIN_REF, f"{HEADS}{MIND}")]
        if names:
            return names[0]
    return ""
