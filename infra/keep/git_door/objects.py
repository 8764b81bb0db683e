"""The pushed objects: all that waits in quarantine, whether a commit needs it or not; the secrets in it, and what no
push may bring (`entries`). Commits and tags are searched like files, since they carry messages, authors and names.

Sizes are known before anything is read, and their sum has a limit; of a file one window is held at a time."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from infra.keep.git_door.entries import entries_of, problem_with_headers, problem_with_tag, problems_with_tree
from infra.shared.repository.git import Git
from infra.shared.secret_shapes import find_secrets

MAX_BYTES = 256 * 1024 * 1024
"""Of all objects of one push, unpacked."""
MAX_HELD_BYTES = 32 * 1024 * 1024
"""Of those among them that are no files."""
"""Of a file that holds a secret."""
WINDOW_BYTES = 4 * 1024 * 1024
OVERLAP_BYTES = 16 * 1024
"""A secret is shorter, so that one on the edge of a window is whole in the next."""


class TooLarge(Exception):
    """The push cannot be looked at whole; says why."""


class PushedObject(NamedTuple):
    id: str
    type: str
    size: int


class Hit(NamedTuple):
    """A secret."""

    kind: str
    line: int
    """From 1; 0 in a directory, which has names only."""
    value: bytes
    """To compare with, and never to show."""


class Suspects(NamedTuple):
    """What may be refused, by object."""

    hits: dict[str, list[Hit]]
    odd: dict[str, list[str]]
    """What is wrong with trees, tags and commit headers, in the words of `entries`."""
    large: dict[str, int]
    """Sizes of files over the limit; these are not searched."""


def pushed_objects(quarantine: Git) -> list[PushedObject]:
    """`quarantine` sees nothing but the push. Raises GitError."""
    answer = quarantine.raw("cat-file", "--batch-all-objects", "--batch-check", "--buffer", "--unordered")
    lines = (line.split(" ") for line in answer.decode().splitlines())
    return [PushedObject(id, type, int(size)) for id, type, size in lines]


def search(quarantine: Git, objects: Sequence[PushedObject], known: tuple[bytes, ...], blob_bytes: int) -> Suspects:
    """Raises GitError, TooLarge, ValueError."""
    large = {each.id: each.size for each in objects if each.type == "blob" and each.size > blob_bytes}
    found = Suspects({}, {}, large)
    wanted = [each for each in objects if each.id not in large]
    total, held = sum(each.size for each in wanted), sum(each.size for each in wanted if each.type != "blob")
    if total > MAX_BYTES or held > MAX_HELD_BYTES:
        over, most = (total, MAX_BYTES) if total > MAX_BYTES else (held, MAX_HELD_BYTES)
        raise TooLarge(f"what it brings is {over >> 20} MiB unpacked, over the limit of {most >> 20}")
    asked = "".join(f"{each.id}\n" for each in wanted).encode()
    with contextlib.closing(quarantine.pieces("cat-file", "--batch", "--buffer", stdin=asked)) as pieces:
        stream: IO[bytes] = io.BufferedReader(_Answer(pieces))
        for each in wanted:
            stream.readline()
            if each.type == "blob":
                hits = _hits(_windows(stream, each.size), known)
            else:
                content = _take(stream, each.size)
                hits = _hits([content], known, is_text=each.type != "tree")
                if odd := _problems(each.type, content):
                    found.odd[each.id] = odd
            if hits:
                found.hits[each.id] = hits
            stream.readline()
    return found


def _problems(type: str, content: bytes) -> list[str]:
    if type == "tree":
        return problems_with_tree(entries_of(content))
    problem = problem_with_tag(content) if type == "tag" else problem_with_headers(content)
    return [problem] if problem else []


def _hits(windows: Iterable[bytes], known: tuple[bytes, ...], is_text: bool = True) -> list[Hit]:
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


def _windows(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """A file piece by piece, each beginning with the end of the one before."""
    window = _take(stream, min(size, WINDOW_BYTES))
    left = size - len(window)
    while left:
        yield window
        more = _take(stream, min(left, WINDOW_BYTES - OVERLAP_BYTES))
        left -= len(more)
        window = window[WINDOW_BYTES - OVERLAP_BYTES :] + more
    yield window


def _take(stream: IO[bytes], count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise ValueError("git cat-file ended before it had shown all objects of the push")
    return content


class _Answer(io.RawIOBase):
    """What git writes, as a file."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._rest or next(self._pieces, b"")
        count = min(len(buffer), len(piece))
        buffer[:count] = piece[:count]
        self._rest = piece[count:]
        return count
