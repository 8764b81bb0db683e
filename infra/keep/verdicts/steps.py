"""The commits that a branch goes through by first parents, and which of them change what needs an examination."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from infra.keep.verdicts.paths import TESTS, needs_examination
from infra.shared.repository.changes import COMPARE, Change, parse_raw
from infra.shared.repository.git import Git, resolve_commit


class Changing(NamedTuple):
    """A commit that differs from its first parent in what needs an examination."""

    commit: str
    committer: str
    """The e-mail address."""
    path: str


def between(git: Git, old: str, new: str) -> list[str]:
    """The first parents from `new` down to what `old` has been by its own, the newest first. Raises GitError."""
    return git("rev-list", *_OWN_LINE, f"{old}..{new}", "--").split()


def last_change(git: Git, old: str, new: str, there: Collection[str]) -> Changing | None:
    """The newest of these commits that changes what needs an examination. Raises GitError.

    `there` are the names in main's `tests/`."""
    words = ("log", *_OWN_LINE, "-m", "-r", *COMPARE, "--format=%x01%H%ce", f"{old}..{new}", "--")
    return first_needing(parse_raw(git.raw(*words)), there)


def are_alike(git: Git, before: str, now: str) -> bool:
    """Whether nothing that needs an examination differs between two commits of main. Raises GitError."""
    if before == now:
        return True
    if resolve_commit(git, before) is None:  # main was rewritten, and that is gone
        return False
    differ = parse_raw(git.raw("diff-tree", "-r", *COMPARE, before, now, "--"))
    return first_needing(differ, names_in_tests(git, before)) is None


def first_needing(found: Iterable[Change | str], there: Collection[str]) -> Changing | None:
    """The first of these changes that needs an examination, with what the header above it says of its commit."""
    header = ""
    for each in found:
        if isinstance(each, str):
            header = each.removeprefix("\x01")
        elif needs_examination(each.path, each.mode_before, each.mode, there):
            return Changing(header[:40], header[40:], each.path)
    return None


# What `old` only merged in was never its own: a new first parent may lie there.
_OWN_LINE = ("--first-parent", "--exclude-first-parent-only")


def names_in_tests(git: Git, commit: str) -> frozenset[str]:
    """Raises GitError."""
    listed = git.raw("ls-tree", "-z", "--name-only", "--full-tree", commit, f"{TESTS}/").decode(errors="replace")
    return frozenset(name.removeprefix(f"{TESTS}/") for name in listed.split("\0") if name)
