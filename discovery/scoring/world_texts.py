"""The contents of the files of a run's world, taken only where their hash is the one that is known.

A run directory may come from a stranger, and names a directory of this machine. What is read from there has the
contents that the run directory already tells the hash of: so nothing else can be got out of this machine by it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from run_values import WORLD, Known, KnownFile

MOST_BYTES = 64 << 20


def read_world(directory: Path | None, known: Known) -> Mapping[str, bytes] | None:
    """All files by their paths in the container; None when one is missing or other than it was."""
    if (
        directory is None
        or not directory.is_absolute()
        or sum(file.bytes for file in known.files.values()) > MOST_BYTES
    ):
        return None
    texts: dict[str, bytes] = {}
    for file in known.files.values():
        content = _read(directory, file)
        if content is None:
            return None
        texts[file.path] = content
    return texts


def _read(directory: Path, file: KnownFile) -> bytes | None:
    below = file.path.removeprefix(f"{WORLD}/")
    if below == file.path or ".." in below.split("/") or "\0" in below:
        return None
    try:
        number = os.open(directory / below, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(number, "rb") as opened:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        content = opened.read(file.bytes + 1)
    return content if hashlib.sha256(content).hexdigest() == file.sha256 else None
