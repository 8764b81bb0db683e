"""The provider's key: read once from a file that nobody else may read, never from the environment, and taken out of
every text that leaves the door."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from infra.shared.providers import variable_of

MAX_BYTES = 4096


class Key(NamedTuple):
    """A key, or why there is none. Its text form never holds it."""

    value: str | None
    problem: str | None

    def __repr__(self) -> str:
        return f"Key(problem={self.problem!r})"

    def redacted(self, text: str) -> str:
        return text.replace(self.value, "[key]") if self.value else text


def read_key(path: str) -> Key:
    """The key in `path`, when it can be trusted to be secret and to be one. Its name there is that of its variable."""
    variable = variable_of(os.path.basename(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Key(None, f"no key at {path} ({error.strerror}); set {variable} and run 'minifram up' again")
    try:
        status = os.fstat(descriptor)
        content = os.read(descriptor, MAX_BYTES + 1) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(descriptor)
    problem = _problem(path, variable, status, content)
    if problem or content is None:
        return Key(None, problem)
    return Key(content.strip().decode("ascii"), None)


def _problem(path: str, variable: str, status: os.stat_result, content: bytes | None) -> str | None:
    mode = stat.S_IMODE(status.st_mode)
    if content is None:
        return f"{path} is not a regular file; put the key itself there"
    if mode & 0o077:
        return f"{path} has mode {mode:04o}, others can read the key; run 'chmod 600' on it and restart the agent"
    key = content.strip()
    if not key:
        return f"{path} is empty; set {variable} and run 'minifram up' again"
    if len(content) > MAX_BYTES or any(not 33 <= byte <= 126 for byte in key):
        return f"{path} does not hold a key; expected one line of printable characters without spaces"
    return None
