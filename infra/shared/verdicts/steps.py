"""The commits that a branch goes through by first parents, and which of them change what needs an examination."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from infra.shared.repository.git import Git, resolve_commit
from infra.shared.verdicts.paths import TESTS, needs_examination


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
    words = (*_OWN_LINE, "-m", "-r", "--raw", "--no-abbrev", "--no-renames", "-z", "--format=%x01%H%ce")
    return _needing(git.raw("log", *words, f"{old}..{new}", "--"), there)


def are_alike(git: Git, before: str, now: str) -> bool:
    """Whether nothing that needs an examination differs between two commits of main. Raises GitError."""
    if before == now:
        return True
    if resolve_commit(git, before) is None:  # main was rewritten, and that is gone
        return False
    words = ("-r", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z")
    return _needing(git.raw("diff-tree", *words, before, now, "--"), names_in_tests(git, before)) is None


def _needing(answer: bytes, there: Collection[str]) -> Changing | None:
    header = ""
    fields = iter(answer.decode(errors="surrogateescape").replace("\n", "\0").split("\0"))
    for field in fields:
        if field.startswith("\x01"):
            header = field[1:]
        elif field.startswith(":"):
            before, after = (mode if mode.strip("0") else "" for mode in field[1:].split(" ")[:2])
            path = next(fields)
            if needs_examination(path, before, after, there):
                return Changing(header[:40], header[40:], path)
    return None


# What `old` only merged in was never its own: a new first parent may lie there.
_OWN_LINE = ("--first-parent", "--exclude-first-parent-only")


def names_in_tests(git: Git, commit: str) -> frozenset[str]:
    """Raises GitError."""
    listed = git.raw("ls-tree", "-z", "--name-only", "--full-tree", commit, f"{TESTS}/").decode(errors="replace")
    return frozenset(name.removeprefix(f"{TESTS}/") for name in listed.split("\0") if name)
