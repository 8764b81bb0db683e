"""Reads the web door's trace (`shared.web.TraceLine`) from where it was read last.

Whatever cannot be read counts as text of an unknown origin: lines that make no sense, a file that went away, was
replaced or cut short with lines in it that nobody read."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import NamedTuple

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


def is_there(path: str) -> bool:
    return os.path.lexists(path) or os.path.lexists(path + OLDER)


def read_since(path: str, mark: Mark) -> Read:
    """Never raises."""
    try:
        return _read_since(path, mark)
    except (OSError, ValueError, RecursionError):
        return Read((UNKNOWN,), mark)


def _read_since(path: str, mark: Mark) -> Read:
    older, origins = _identity(path + OLDER), dict[str, None]()
    try:
        file = opened_file(path)
    except FileNotFoundError:
        is_gone = mark.offset or older != mark.older
        return Read(_older(path, mark) if is_gone else (), Mark(older=older))
    with file:
        if older != mark.older or not _goes_on(file.fileno(), mark):
            origins |= dict.fromkeys(_older(path, mark))
            mark = Mark(older=older)
        while piece := os.pread(file.fileno(), PIECE_BYTES, mark.offset):
            whole = piece[: piece.rfind(b"\n") + 1]
            if not whole:
                if len(piece) == PIECE_BYTES:
                    origins[UNKNOWN] = None
                break  # a line without its end was not answered yet
            origins |= dict.fromkeys(_origins(whole))
            last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
            mark = Mark(mark.offset + len(whole), len(last), _digest(last), older)
    return Read(tuple(origins), mark)


def _goes_on(descriptor: int, mark: Mark) -> bool:
    """The line that was read last still stands where it stood."""
    return not mark.offset or _digest(os.pread(descriptor, mark.length, mark.offset - mark.length)) == mark.digest


def _identity(path: str) -> str:
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return ""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _older(path: str, mark: Mark) -> tuple[str, ...]:
    """Of what the file held when it was cut short, from the mark on; when that is not there, lines may be lost."""
    try:
        with opened_file(path + OLDER) as file:
            is_whole = bool(mark.offset) and _goes_on(file.fileno(), mark)
            file.seek(mark.offset if is_whole else 0)
            found = dict.fromkeys(origin for line in file for origin in _origins(line))
    except FileNotFoundError:
        return (UNKNOWN,)
    return (*found, *(() if is_whole else (UNKNOWN,)))


def _origins(lines: bytes) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for line in lines.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            found[UNKNOWN] = None
        elif said.get("status") not in NOT_SERVED or ANSWERED in (said.get("policy_flags") or ()):
            origin = said.get("origin") or _origin_of(said.get("url"))
            known = isinstance(origin, str) and len(origin) <= MOST_ORIGIN_CHARS and _ORIGIN.fullmatch(origin)
            found[redacted(str(origin)) if known else UNKNOWN] = None
    return tuple(found)


def _origin_of(url: object) -> str:
    return "/".join(url.split("/")[:3]) if isinstance(url, str) else ""


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
