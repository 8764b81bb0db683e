"""A branch tip that several people move at once, and the one way we move it: look, build the next commit on
what was seen, move only if it is still what was seen, else again. So nobody's work is lost and nobody meets a
conflict (DESIGN §3)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Protocol

from infra.repository.git import Git, GitError, resolve_commit

ATTEMPTS = 50
"""Losing a race costs one attempt; each loss means that somebody else's push went through."""


class Tip(Protocol):
    """A branch of the shared repository, from one of its two sides."""

    git: Git

    def look(self) -> str:
        """The commit it is at, present in `git`. Raises GitError."""

    def move(self, old: str, new: str) -> bool:
        """Move it from `old` to `new`; False when it is no longer at `old`. Raises GitError for any other refusal."""


class BareTip:
    """The tip in the bare repository itself: the keep's and the host's side."""

    def __init__(self, git: Git, branch: str = "main") -> None:
        self.git = git
        self._ref = f"refs/heads/{branch}"

    def look(self) -> str:
        return self.git("rev-parse", "--verify", self._ref)

    def move(self, old: str, new: str) -> bool:
        try:
            self.git("update-ref", self._ref, new, old)
        except GitError:
            if self.look() != old:
                return False
            raise
        return True


class CloneTip:
    """The tip seen from a clone: moved by a push through the git door."""

    def __init__(self, git: Git, branch: str = "main") -> None:
        self.git = git
        self._branch = branch

    def look(self) -> str:
        self.git("fetch", "--quiet", "origin", f"+refs/heads/{self._branch}:refs/remotes/origin/{self._branch}")
        return self.git("rev-parse", "--verify", f"refs/remotes/origin/{self._branch}")

    def move(self, old: str, new: str) -> bool:
        try:
            self.git("push", "--quiet", "origin", f"{new}:refs/heads/{self._branch}")
        except GitError as error:
            # The door's own refusals say "pre-receive hook declined"; losing a race says one of these.
            lost = ("non-fast-forward", "fetch first", "cannot lock ref", "failed to update ref", "stale info")
            if any(words in error.stderr for words in lost) or self.look() != old:
                return False
            raise
        return True


class TipBusy(Exception):
    """Others moved the branch at every one of `ATTEMPTS` attempts."""


def advance(tip: Tip, next_commit: Callable[[str], str | None]) -> str:
    """Move the tip to `next_commit(seen)`; None leaves it. Gives the commit it is at then.

    `next_commit` is called again with the newer commit when a race was lost. Raises GitError, TipBusy, and
    whatever `next_commit` raises; then the tip is where others left it."""
    for _ in range(ATTEMPTS):
        seen = tip.look()
        new = next_commit(seen)
        if new is None or new == seen:
            return seen
        if tip.move(seen, new):
            return new
    raise TipBusy(f"{ATTEMPTS} attempts to move a branch lost the race against other pushes; try again")


def read_file(git: Git, commit: str, path: str) -> str | None:
    """A text file of a commit; None when it is not there. Bytes that are not UTF-8 survive a write back."""
    try:
        return git.raw("cat-file", "blob", f"{commit}:{path}").decode(errors="surrogateescape")
    except GitError as error:
        if error.status == 128:
            return None
        raise


def edit_file(git: Git, path: str, edit: Callable[[str], str], message: str) -> Callable[[str], str | None]:
    """A `next_commit` that changes one file (missing reads as empty) and nothing else."""

    def next_commit(seen: str) -> str | None:
        old = read_file(git, seen, path)
        new = edit(old or "")
        if new == old:
            return None
        blob = git("hash-object", "-w", "--stdin", stdin=new.encode(errors="surrogateescape"))
        return commit_tree(git, tree_with(git, seen, {path: blob}), (seen,), message)

    return next_commit


def tree_with(git: Git, base: str, blobs: dict[str, str | None]) -> str:
    """The tree of `base` (a commit or tree) with these paths set to these blobs; None removes a path."""
    with tempfile.TemporaryDirectory(prefix="minifram-index-") as directory:
        indexed = git.with_env(GIT_INDEX_FILE=os.path.join(directory, "index"))
        indexed("read-tree", f"{base}^{{tree}}")
        lines = (f"{'100644' if blob else '0'} {blob or '0' * 40}\t{path}\0" for path, blob in blobs.items())
        indexed("update-index", "-z", "--index-info", stdin="".join(lines).encode())
        return indexed("write-tree")


def commit_tree(git: Git, tree: str, parents: tuple[str, ...], message: str) -> str:
    words = [word for parent in parents for word in ("-p", parent)]
    return git("commit-tree", tree, *words, stdin=message.encode())


def rollback_commit(git: Git, seen: str, target: str, message: str) -> str:
    """A new commit on `seen` whose tree is `target`'s, with COMMS.md kept from `seen`: history only grows.

    `target` is any ref; raises LookupError when it names no commit."""
    wanted = resolve_commit(git, target)
    if wanted is None:
        raise LookupError(f"{target!r} names no commit in the repository; see 'git log --oneline --all'")
    comms = blob_at(git, seen, "COMMS.md")
    return commit_tree(git, tree_with(git, wanted, {"COMMS.md": comms}), (seen,), message)


def blob_at(git: Git, commit: str, path: str) -> str | None:
    """The id of a file's content in a commit; None when it is not there."""
    return resolve_object(git, f"{commit}:{path}")


def resolve_object(git: Git, name: str) -> str | None:
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", name)
    except GitError as error:
        if error.status in (1, 128):
            return None
        raise
