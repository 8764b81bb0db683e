"""Merging a branch into main without a work tree (git-merge-tree(1), git 2.38 or newer). COMMS.md and its
archive always stay main's."""

from __future__ import annotations

from infra.shared.paths import PAGES
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import commit_tree, file_at, tree_with


class MergeConflict(Exception):
    """Two branches changed the same lines; carries the files."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(f"conflict in {', '.join(files)}; merge main into the branch and push it, then try again")
        self.files = files


def merge_commit(git: Git, seen: str, merged: str, message: str) -> str | None:
    """A merge of the commit `merged` onto `seen`, whose pages it keeps; None when it is already in. Raises
    MergeConflict, GitError."""
    if git.ok("merge-base", "--is-ancestor", merged, seen):
        return None
    pages = {page: file_at(git, seen, page) for page in PAGES}
    ours, theirs = (
        commit_tree(git, tree_with(git, side, pages), (side,), "with main's pages") for side in (seen, merged)
    )
    try:
        tree = git("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    except GitError as error:
        if error.status == 1:  # the first item is the tree with its conflict marks, the rest are file names
            names = error.stdout.decode(errors="replace").split("\0")[1:]
            raise MergeConflict(tuple(dict.fromkeys(name for name in names if name))) from None
        raise
    return commit_tree(git, tree.rstrip("\0"), (seen, merged), message)
