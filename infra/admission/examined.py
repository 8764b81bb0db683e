"""What a push would move main over that only an examination lets it, as facts for `decide`; and the request for that
examination, for whoever pushes without having asked."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from infra.admission.changes import Change
from infra.admission.decide import HEADS, MAIN_REF, Step, Update
from infra.contract.branches import MIND
from infra.examination import refs
from infra.examination.paths import TESTS, needs_examination
from infra.examination.trees import key_of
from infra.repository.git import Git, GitError

if TYPE_CHECKING:
    from infra.admission.inspection import Pushed


def step_between(repository: Pushed, old: str, new: str, changed: Mapping[str, Change]) -> Step:
    """Raises GitError, TooMuch."""
    git = repository.git
    between = git("rev-list", "--first-parent", f"{old}..{new}", "--").split()[1:]
    is_about_tests = between or any(path.startswith(f"{TESTS}/") for path in changed)
    there = _names_in_tests(git, old) if is_about_tests else frozenset[str]()
    early = _early(git, old, between[0], there) if between else None
    path = next((path for path, each in changed.items() if _needs(path, each.mode_before, each.mode, there)), "")
    if not path:
        return Step("", early=early)
    key = key_of(git, new)
    standing = refs.standing(repository.kept, key)
    return Step(path, key, standing, early, "" if standing else _branch_at(git, repository.kept, new))


def ask_for_examinations(repository: Pushed, updates: Sequence[Update]) -> None:
    """For agents that push a merge which nobody has examined: the PM is to find a verdict."""
    for update in updates:
        step = update.step
        if step.path and step.standing is None and step.branch:
            with contextlib.suppress(GitError, OSError):  # the refusal says what to do without it
                commit = repository.kept("rev-parse", "--verify", f"{HEADS}{step.branch}")
                refs.ask(repository.kept, step.branch, commit)


def _needs(path: str, before: str, after: str, there: Collection[str]) -> bool:
    return needs_examination(path, before, after, there)


def _names_in_tests(git: Git, commit: str) -> frozenset[str]:
    listed = git.raw("ls-tree", "-z", "--name-only", "--full-tree", commit, f"{TESTS}/").decode(errors="replace")
    return frozenset(name.removeprefix(f"{TESTS}/") for name in listed.split("\0") if name)


def _early(git: Git, old: str, last: str, there: Collection[str]) -> tuple[str, str] | None:
    """Of the commits that main would go through up to `last`, one that changes what needs an examination."""
    words = ("--first-parent", "-m", "-r", "--raw", "--no-abbrev", "--no-renames", "-z", "--format=%x01%H")
    answer = git.raw("log", *words, f"{old}..{last}", "--").decode(errors="surrogateescape")
    commit = ""
    fields = iter(answer.replace("\n", "\0").split("\0"))
    for field in fields:
        if field.startswith("\x01"):
            commit = field[1:]
        elif field.startswith(":"):
            before, after = (mode if mode.strip("0") else "" for mode in field[1:].split(" ")[:2])
            path = next(fields)
            if _needs(path, before, after, there):
                return commit, path
    return None


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
