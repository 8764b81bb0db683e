"""Which code a program of the keep runs, so that the PM's command can tell whether another is installed by now."""

from __future__ import annotations

import functools
import hashlib
import os

_DIGITS = 12


@functools.cache
def running_code() -> str:
    """A hash over the names and contents of all modules of the `infra` that this process has loaded from."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digest = hashlib.sha256()
    for directory, below, names in os.walk(top):
        below.sort()
        for name in sorted(name for name in names if name.endswith((".py", ".yaml"))):
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{os.path.relpath(path, top)}\0{content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:_DIGITS]
