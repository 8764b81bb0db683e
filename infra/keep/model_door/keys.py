"""The provider's key: read once from a file that nobody else may read, never from the environment, and taken out of
every text that leaves the door."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from infra.keep.settings.models import variable_of
from infra.shared.safe_files import NotPlain, opened_file

MAX_BYTES = 4096


class Key(NamedTuple):
    """A key, or why there is none. Its text form never holds it."""

    value: str | None
    problem: str | None

    def __repr__(self) -> str:
        return f"Key(problem={self.problem!r})"

    @property
    def known(self) -> tuple[bytes, ...]:
        """As what is redacted."""
        return (self.value.encode(),) if self.value else ()


NO_KEY = Key(None, None)


def read_key(path: str) -> Key:
    """The key in `path`, when it can be trusted to be secret and to be one. Its name there is that of its variable."""
    again = f"set {variable_of(os.path.basename(path))} and run 'minifram up' again"
    try:
        with opened_file(path) as file:
            mode, content = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read(MAX_BYTES + 1)
    except NotPlain:
        return Key(None, f"{path} is not a regular file; put the key itself there")
    except OSError as error:
        return Key(None, f"no key at {path} ({error.strerror}); {again}")
    key = content.strip()
    if mode & 0o077:
        return Key(None, f"{path} has mode {mode:04o}, others can read the key; 'chmod 600' it and restart the agent")
    if not key or len(content) > MAX_BYTES or any(not 33 <= byte <= 126 for byte in key):
        return Key(None, f"{path} does not hold a key; expected one line without spaces; {again}")
    return Key(key.decode("ascii"), None)
