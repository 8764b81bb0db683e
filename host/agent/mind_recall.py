"""What a run would find in the mind, from the branch in the bare repository: the same search, its index in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from host.errors import not_found, usage
from infra.shared.clock import timestamp
from infra.shared.mind.index import FolderSeen
from infra.shared.mind.rows import FOLDERS, kind_of
from infra.shared.mind.search import Query, Recalled, problem_with, search, since_day, words_of
from infra.shared.repository.git import Git, GitError, resolve_commit

MIND_REF: Final = "refs/heads/mind"
_TOGETHER_BYTES, _SMALL_BYTES = 32 << 20, 1 << 20
"""Blobs that are read by one git, and how large one of them may be."""


def recall(git: Git, words: str, kind: str, since: str, results: int, all: bool, now: float) -> Recalled:
    """Raises CommandError for what cannot be asked, and for an agent without a mind; GitError."""
    problem = problem_with(kind, since) or ("" if words_of(words) else "there is no word to search for")
    if problem:
        raise usage(problem)
    commit = resolve_commit(git, MIND_REF)
    if commit is None:
        raise not_found("this agent has no mind yet; 'minifram up' gives it one")
    query = Query(words, kind, since_day(since, now), (), all, results, today=timestamp(now)[:10])
    return search("", BranchFiles(git, commit), query)


class _Blob(NamedTuple):
    id: str
    size: int


class BranchFiles:
    """The searched files of one commit. Raises GitError."""

    def __init__(self, git: Git, commit: str) -> None:
        self._git = git
        self._blobs = dict(self._listed(commit))
        self._contents: dict[str, bytes] | None = None

    def changed(self, before: Mapping[str, str]) -> Iterator[FolderSeen]:
        folders: dict[str, dict[str, str]] = {}
        for path, blob in self._blobs.items():
            folders.setdefault(os.path.dirname(path), {})[path] = blob.id
        yield from (FolderSeen(folder, "seen", stamps) for folder, stamps in folders.items())

    def read(self, path: str, most: int) -> bytes:
        """Raises OSError for what is too much for one answer of git."""
        if self._contents is None:
            self._contents = self._together()
        if path in self._contents:
            return self._contents[path][:most]
        try:
            return self._git.raw("cat-file", "blob", self._blobs[path].id)[:most]
        except GitError as error:
            raise OSError(errno.EFBIG, str(error)) from None

    def _listed(self, commit: str) -> Iterator[tuple[str, _Blob]]:
        listing = self._git.raw("ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", *FOLDERS)
        for entry in listing.split(b"\0"):
            head, _, name = entry.partition(b"\t")
            mode, type, id, size = (*head.decode(errors="replace").split(), "", "", "", "")[:4]
            path = name.decode(errors="surrogateescape")
            if type == "blob" and mode.startswith("100") and kind_of(path) and path.isprintable():
                yield path, _Blob(id, int(size))

    def _together(self) -> dict[str, bytes]:
        """The small ones, by as few gits as there is room for."""
        contents, batch, room = dict[str, bytes](), list[tuple[str, _Blob]](), _TOGETHER_BYTES
        for path, blob in self._blobs.items():
            if blob.size > _SMALL_BYTES:
                continue
            if blob.size > room:
                contents |= self._batch(batch)
                batch, room = [], _TOGETHER_BYTES
            batch.append((path, blob))
            room -= blob.size
        return contents | self._batch(batch)

    def _batch(self, batch: list[tuple[str, _Blob]]) -> dict[str, bytes]:
        if not batch:
            return {}
        asked = "".join(f"{blob.id}\n" for _, blob in batch).encode()
        answer = self._git.raw("cat-file", "--batch", "--buffer", stdin=asked)
        contents, at = dict[str, bytes](), 0
        for path, blob in batch:
            at = answer.index(b"\n", at) + 1
            contents[path] = answer[at : at + blob.size]
            at += blob.size + 1
        return contents
