"""The files that differ between two commits, asked so that no commit can make it take for ever or take all memory."""

from __future__ import annotations

from typing import NamedTuple

from infra.shared.repository.git import Git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Change(NamedTuple):
    """Modes are git's own, such as `100644`; empty where the file is not there."""

    mode_before: str
    id_before: str
    mode: str


def changes(git: Git, base: str, new: str) -> dict[str, Change]:
    """Every file that differs, by its path. With a BoundedGit it is bounded; raises GitError, TooMuch."""
    # A tree that holds itself over and over has paths without end: listing says so before it takes any room, while
    # comparing would take all there is and then say nothing.
    git.raw("ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", new)
    words = ("-r", "--raw", "--no-renames", "--ignore-submodules=none", "-z")
    answer = git.raw("diff-tree", *words, base, new, "--").decode(errors="surrogateescape")
    found = {}
    fields = iter(answer.split("\0"))
    for field in fields:
        if field:  # :<mode> <mode> <id> <id> <letter>; the path is the next field
            before, after, id_before, _, _ = field.removeprefix(":").split(" ")
            found[next(fields)] = Change(_mode(before), id_before, _mode(after))
    return found


def _mode(text: str) -> str:
    return text if text.strip("0") else ""
