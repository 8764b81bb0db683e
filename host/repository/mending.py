"""What a power cut leaves of an agent's repository and what can be put right without a guess: the two files whose
content is always the same, where they are empty, and locks that a git of before the machine's start has left."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator

from host.agent.paths import Home
from infra.shared.branches import MAIN
from infra.shared.files import write_whole
from infra.shared.repository.bare_config import config_text
from infra.shared.repository.durable_refs import locks_of_refs
from infra.shared.safe_files import opened_file

_SMALL = 4096
"""An empty file may have its old length, of zero bytes."""


def mend(home: Home, started: float) -> Iterator[str]:
    """Put right what can be; each thing that was done, in words. `started`: when the machine was, by the wall's clock.
    Raises OSError."""
    contents = {"HEAD": f"ref: refs/heads/{MAIN}\n", "config": config_text(home.agent)}
    for name in emptied(home.remote):
        write_whole(f"{home.remote}/{name}", contents[name].encode())
        yield f"{home.remote}/{name} was empty, as a power cut can leave it; it is written again, as 'init' made it"
    for path in [f"{home.remote}/config.lock", *locks_of_refs(home.remote)]:
        if os.path.lexists(path) and os.lstat(path).st_mtime < started:
            os.unlink(path)
            yield f"{path} was left by a git that ended with the machine; it is removed"


def machine_started() -> float:
    """By the wall's clock."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def emptied(remote: str) -> list[str]:
    """Those of the two files that hold nothing, in a directory that is a repository otherwise. Raises OSError."""
    if not all(_is_directory(f"{remote}/{name}") for name in ("", "objects", "refs")):
        return []
    return [name for name in ("HEAD", "config") if _holds_nothing(f"{remote}/{name}")]


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path.rstrip("/"))


def _holds_nothing(path: str) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(status.st_mode) or status.st_size > _SMALL:
        return False
    with opened_file(path) as file:
        return not file.read(_SMALL).strip(b"\0")
