"""The versions of commits: what a start can fail for."""

from __future__ import annotations

import hashlib

from infra.keep.watcher_file import Version
from infra.shared.paths import BASE_PROMPT
from infra.shared.repository.git import Git
from infra.shared.repository.page_text import PAGES
from infra.shared.repository.version import TREE_BYTES, body_of


def version_of(git: Git, commit: str) -> Version:
    """The version of a commit of main. Raises GitError."""
    listed = body_of(git, commit, BASE_PROMPT)
    body = b"".join(entry for entry in listed.split(b"\0") if not entry.endswith(f"\t{BASE_PROMPT}".encode()))
    return Version(commit=commit, id=_id(listed), body=_id(body))


def candidate_of(git: Git, commit: str) -> Version:
    """The version of a branch: all that it holds but the pages. A branch fails for itself: main, which may start from
    the same files, is not to be pinned with it. Raises GitError."""
    entries = git.saying_at_most(TREE_BYTES).raw("ls-tree", "-z", "--full-tree", commit).split(b"\0")
    kept = (entry for entry in entries if entry.partition(b"\t")[2].decode(errors="replace") not in PAGES)
    return Version(commit=commit, id="branch-" + _id(b"\0".join(kept)))


def _id(listed: bytes) -> str:
    return hashlib.sha256(listed).hexdigest()[:16]
