"""What a push brings: every object that waits in quarantine, whether a commit needs it or not, and the secrets in
those. Commits and tags are looked at like files, since they carry messages, authors and names.

Bounded like all that is asked of git here: sizes are known before anything is read, the sum of them has a limit, and
no more than a window of any object is held at a time."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from infra.keep.git_door.entries import entries_of, problem_with_headers, problem_with_tag, problems_with_tree
from infra.shared.repository.bounded_git import BoundedGit, TooMuch
from infra.shared.secret_shapes import find_secrets

MAX_BYTES = 256 * 1024 * 1024
"""Of all that one push brings, unpacked."""
MAX_SECRET_BYTES = 64 * 1024
"""Of a file that holds a secret."""
WINDOW_BYTES = 4 * 1024 * 1024
OVERLAP_BYTES = 16 * 1024
"""A secret is shorter, so that one on the edge of a window is whole in the next."""


class Brought(NamedTuple):
    """An object of the push."""

    id: str
    type: str
    size: int


class Hit(NamedTuple):
    kind: str
    line: int
    """From 1; 0 in a directory, which has names only."""
    value: bytes
    """To compare with, and never to show."""


def read_known(directory: str) -> tuple[bytes, ...]:
    """The secrets that lie in a directory, each file one; of one with several lines also each long word that stands
    alone on a line. Raises OSError.

    A directory that is not there holds none: no model needs a key then."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return ()
    known: dict[bytes, None] = {}
    for name in names:
        # Without waiting for a writer, should it be a FIFO.
        descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                continue
            content = os.read(descriptor, MAX_SECRET_BYTES).strip()
        finally:
            os.close(descriptor)
        lines = [line.strip() for line in content.splitlines()]
        known |= dict.fromkeys([content, *(line for line in lines if len(line) >= 16 and b" " not in line)])
    return tuple(known)


def brought(quarantine: BoundedGit) -> list[Brought]:
    """All objects of the push. `quarantine` sees nothing else. Raises GitError, TooMuch."""
    answer = quarantine.raw("cat-file", "--batch-all-objects", "--batch-check", "--buffer", "--unordered")
    found = []
    for line in answer.decode().splitlines():
        id, type, size = line.split(" ")
        found.append(Brought(id, type, int(size)))
    return found


def secrets_in(quarantine: BoundedGit, objects: Iterable[Brought], known: tuple[bytes, ...]) -> dict[str, list[Hit]]:
    """The secrets in these objects, by their ids. Raises GitError, TooMuch."""
    wanted = list(objects)
    total = sum(each.size for each in wanted)
    if total > MAX_BYTES:
        raise TooMuch(f"what it brings is {total >> 20} MiB unpacked, over the limit of {MAX_BYTES >> 20}")
    if not wanted:
        return {}
    asked = "".join(f"{each.id}\n" for each in wanted).encode()
    hits: dict[str, list[Hit]] = {}
    with contextlib.closing(quarantine.pieces("cat-file", "--batch", "--buffer", stdin=asked)) as pieces:
        stream = _Stream(pieces)
        for each in wanted:
            stream.skip_line()
            found = _hits(_windows(stream, each.size), known, is_text=each.type != "tree")
            stream.skip_line()
            if found:
                hits[each.id] = found
    return hits


def odd_in(quarantine: BoundedGit, objects: Iterable[Brought]) -> dict[str, list[str]]:
    """What `entries` says is wrong with these, by their ids; files aside. Raises GitError, TooMuch, ValueError."""
    wanted = [each for each in objects if each.type != "blob"]
    if not wanted:
        return {}
    answer = memoryview(
        quarantine.raw("cat-file", "--batch", "--buffer", stdin="".join(f"{each.id}\n" for each in wanted).encode())
    )
    found, at = {}, 0
    for each in wanted:
        at += len(f"{each.id} {each.type} {each.size}\n")
        content = bytes(answer[at : at + each.size])
        at += each.size + 1
        if each.type == "tree":
            problems = problems_with_tree(entries_of(content))
        else:
            problem = problem_with_tag(content) if each.type == "tag" else problem_with_headers(content)
            problems = [problem] if problem else []
        if problems:
            found[each.id] = problems
    return found


def _hits(windows: Iterable[bytes], known: tuple[bytes, ...], is_text: bool) -> list[Hit]:
    hits: dict[Hit, None] = {}
    line = 1
    for window in windows:
        # In UTF-16 and UTF-32 there are zero bytes between the letters of a key.
        texts = [window, window.replace(b"\0", b"")] if is_text and b"\0" in window else [window]
        for text in texts:
            for found in find_secrets(text, known):
                at = line + text.count(b"\n", 0, found.start) if is_text else 0
                hits[Hit(found.kind, at, text[found.start : found.end])] = None
        line += window.count(b"\n", 0, WINDOW_BYTES - OVERLAP_BYTES)
    return list(hits)


def _windows(stream: _Stream, size: int) -> Iterator[bytes]:
    """An object piece by piece, each beginning with the end of the one before."""
    window = stream.take(min(size, WINDOW_BYTES))
    left = size - len(window)
    while left:
        yield window
        more = stream.take(min(left, WINDOW_BYTES - OVERLAP_BYTES))
        left -= len(more)
        window = window[WINDOW_BYTES - OVERLAP_BYTES :] + more
    yield window


class _Stream:
    """What git writes, taken in portions."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self._pieces = pieces
        self._rest = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        """Exactly so many bytes. Raises ValueError when git ends before."""
        parts = [self._rest[self._at : self._at + count]]
        self._at += len(parts[0])
        left = count - len(parts[0])
        while left:
            self._rest = self._next()
            self._at = min(left, len(self._rest))
            parts.append(self._rest[: self._at])
            left -= self._at
        return b"".join(parts)

    def skip_line(self) -> None:
        while (end := self._rest.find(b"\n", self._at)) < 0:
            self._rest, self._at = self._next(), 0
        self._at = end + 1

    def _next(self) -> bytes:
        piece = next(self._pieces, b"")
        if not piece:
            raise ValueError("git cat-file ended before it had shown all objects of the push")
        return piece
