"""The keep's record of where the chain of events ended after each run: `var/mind-heads.jsonl`, a line each. The keep
writes it, the host reads it, and the cell can do neither; so nobody rewrites an event that a run has ended with."""

from __future__ import annotations

import errno
import json
import os
from typing import NamedTuple

from infra.shared.files import sync_directory

FILE = "mind-heads.jsonl"
"""In the keep's var."""


class Head(NamedTuple):
    """After this run the chain ended with this event."""

    run: str
    seq: int
    hash: str
    at: str
    """When the keep was told, as `clock.timestamp` gives it."""
    since: int
    """The first event that whoever told it wrote itself, without a gap up to this one: the keep vouches for these."""


def line_of(head: Head) -> bytes:
    return json.dumps(head._asdict()).encode() + b"\n"


def read_heads(content: bytes) -> list[Head]:
    """All of the file's lines that are whole, in order; what a power cut tore is passed over."""
    found = list[Head]()
    for line in content.split(b"\n"):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            continue
        match fields:
            case {"run": str(run), "seq": int(seq), "hash": str(hash), "at": str(at), "since": int(since)}:
                found.append(Head(run, seq, hash, at, since))
    return found


def add(var: str, lines: bytes) -> None:
    """At the end of the keep's file, on the disk when this returns. Raises OSError."""
    path = f"{var}/{FILE}"
    is_new = not os.path.exists(path)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        # A line that a power cut tore stays as it is; the next one must not be glued to it.
        torn = b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
        if os.write(descriptor, torn + lines) != len(torn + lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_directory(var)
