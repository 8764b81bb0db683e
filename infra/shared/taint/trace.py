"""Reads the web door's trace (`shared.web.TraceLine`) from where it was read last.

Whatever cannot be read counts as text of an unknown origin: lines that make no sense, a file that went away, was
replaced or cut short with lines in it that nobody read."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from infra.shared.clock import moment
from infra.shared.safe_files import OLDER, opened_file
from infra.shared.secret_shapes import redacted
from infra.shared.taint.machine import MOST_ORIGIN_CHARS, UNKNOWN, Mark

PIECE_BYTES = 8 << 20
"""A line has a fraction of that."""
NOT_SERVED, ANSWERED = ("error", "denied", "package"), "answered"
"""What a request can come to without text of the web for the cell, unless the site had answered by then: the words of
an error may be the site's."""
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9.:_%\[\]-]+")


class Read(NamedTuple):
    origins: tuple[str, ...]
    """Of what was served since the mark."""
    mark: Mark
    since: float
    """When the first of it was served, or earlier."""


def is_there(path: str) -> bool:
    return os.path.lexists(path) or os.path.lexists(path + OLDER)


def read_since(path: str, mark: Mark) -> Read:
    """Never raises."""
    try:
        return _read_since(path, mark)
    except (OSError, ValueError, TypeError, RecursionError):
        return Read((UNKNOWN,), mark, mark.at)


def _read_since(path: str, mark: Mark) -> Read:
    older, found, known = _identity(path + OLDER), dict[str, float](), mark.at
    try:
        file = opened_file(path)
    except FileNotFoundError:
        is_gone = mark.offset or older != mark.older
        found = _older(path, mark) if is_gone else {}
        return Read(tuple(found), Mark(older=older, at=known), known)
    with file:
        if older != mark.older or not _goes_on(file.fileno(), mark):
            found |= _older(path, mark)
            mark = Mark(older=older, at=known)
        while piece := os.pread(file.fileno(), PIECE_BYTES, mark.offset):
            whole = piece[: piece.rfind(b"\n") + 1]
            if not whole:
                if len(piece) == PIECE_BYTES:
                    found[UNKNOWN] = known
                break  # a line without its end was not answered yet
            for origin, at in _served(whole.splitlines(), known).items():
                found.setdefault(origin, at)
            last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
            mark = Mark(mark.offset + len(whole), len(last), _digest(last), older, _when(last, known))
    return Read(tuple(found), mark, min(found.values(), default=known))


def _goes_on(descriptor: int, mark: Mark) -> bool:
    """The line that was read last still stands where it stood."""
    return not mark.offset or _digest(os.pread(descriptor, mark.length, mark.offset - mark.length)) == mark.digest


def _identity(path: str) -> str:
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return ""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _older(path: str, mark: Mark) -> dict[str, float]:
    """Of what the file held when it was cut short, from the mark on; when that is not there, lines may be lost."""
    try:
        with opened_file(path + OLDER) as file:
            is_whole = bool(mark.offset) and _goes_on(file.fileno(), mark)
            file.seek(mark.offset if is_whole else 0)
            found = _served(file, mark.at)
    except FileNotFoundError:
        return {UNKNOWN: mark.at}
    return found if is_whole else found | {UNKNOWN: mark.at}


def _served(lines: Iterable[bytes], known: float) -> dict[str, float]:
    """Origins, and when each was served first; `known` stands for a time that does not say itself."""
    found: dict[str, float] = {}
    for line in lines:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            found.setdefault(UNKNOWN, known)
        elif said.get("status") not in NOT_SERVED or ANSWERED in (said.get("policy_flags") or ()):
            origin = said.get("origin") or _origin_of(said.get("url"))
            is_one = isinstance(origin, str) and len(origin) <= MOST_ORIGIN_CHARS and _ORIGIN.fullmatch(origin)
            found.setdefault(redacted(str(origin)) if is_one else UNKNOWN, _when(line, known))
    return found


def _origin_of(url: object) -> str:
    return "/".join(url.split("/")[:3]) if isinstance(url, str) else ""


def _when(line: bytes, known: float) -> float:
    try:
        return moment(json.loads(line)["at"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return known


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
