"""The bare repository itself, the keep's and the host's side of it: refs that survive a power cut, the tip of a branch,
and going back to a version."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from infra.shared.files import sync
from infra.shared.paths import PAGES
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import TreeEntry, commit_tree, file_at, tree_with

KNOWN_GOOD = "refs/minifram/good"
"""In the bare repository: below it the versions of main that served well."""
REJECTED = "refs/minifram/rejected"
"""Below it the branches that the PM rejected (`minifram reject`)."""
RETRY_REF = "refs/minifram/retry"
"""With it the PM, who alone can push it, lets pinned versions be tried again (`minifram retry`)."""

# git syncs the file of a ref, but never the directory that holds its name. (The names of objects need no such care:
# what was renamed before comes to the disk with any directory that is synced after.)
HOOK = "reference-transaction"
"""githooks(5): for a git that runs hooks."""
SCRIPT = """\
#!/bin/sh
# Put here by minifram: without it a power cut could take back a push that git has confirmed.
cd "${GIT_DIR:-.}" && [ "$1" = committed ] && find . -path ./objects -prune -o -type d -exec sync {} + 2>/dev/null
exit 0
"""


def update_refs(git: Git, *orders: str) -> None:
    """Carry out orders as `git update-ref --stdin` knows them, all or none, on a bare repository; then they are on the
    disk. Raises GitError, and OSError when they are carried out and could not be synced."""
    git("update-ref", "--stdin", "--no-deref", stdin="".join(f"{order}\n" for order in orders).encode())
    for directory in (git.directory, *(found for found, _, _ in os.walk(f"{git.directory}/refs"))):
        with contextlib.suppress(FileNotFoundError):  # git removes a directory with the last ref in it
            sync(directory)


class BareTip:
    """The tip of a branch (`tip.Tip`)."""

    def __init__(self, git: Git, branch: str = "main") -> None:
        self.git = git
        self._ref = f"refs/heads/{branch}"

    def look(self) -> str:
        return self.git("rev-parse", "--verify", self._ref)

    def move(self, old: str, new: str) -> bool:
        try:
            update_refs(self.git, f"update {self._ref} {new} {old}")
        except GitError as error:
            if error.status is None:  # there is no time to look again
                raise
            now = self.look()
            if now == old:
                raise
            return now == new
        return True


def rollback_commit(
    git: Git, seen: str, target: str, message: str, kept: Mapping[str, TreeEntry | None] | None = None
) -> str:
    """A new commit on `seen` whose tree is `target`'s, with the pages kept from `seen`: history only grows.

    `target` is any ref; raises LookupError when it names no commit. `kept` gives other files and how they stay."""
    wanted = resolve_commit(git, target)
    if wanted is None:
        raise LookupError(f"{target!r} names no commit in the repository; see 'git log --oneline --all'")
    pages = {page: file_at(git, seen, page) for page in PAGES}
    return commit_tree(git, tree_with(git, wanted, {**(kept or {}), **pages}), (seen,), message)
