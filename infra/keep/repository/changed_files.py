"""The files that differ between two commits, asked so that no commit can take endless time or memory."""

from __future__ import annotations

from infra.shared.repository.changes import COMPARE, Change, parse_raw
from infra.shared.repository.git import Git


def changes(git: Git, base: str, new: str) -> dict[str, Change]:
    """Every file that differs, by its path. Raises GitError, and TooMuch by the limits of `git`."""
    # A tree that holds itself over and over has paths without end: a listing fails early, while a comparison would
    # take all memory and then say nothing.
    git.raw("ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", new)
    found = parse_raw(git.raw("diff-tree", "-r", *COMPARE, base, new, "--"))
    return {change.path: change for change in found if isinstance(change, Change)}
