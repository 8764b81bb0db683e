"""Taking environments off the disk, by one program at a time. What is to go first loses its marker, so that one which
was removed in part is never used; what the agent made hard to remove (no rights, great depth) goes all the same."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import subprocess
import time
from collections.abc import Iterator

from infra.keep.environments import shelf

POLL_SECONDS = 0.1
RM_SECONDS = 120.0


@contextlib.contextmanager
def alone_in(environments: str, until: float) -> Iterator[None]:
    """Hold a lock on the directory itself, waiting for it until then (monotonic). Raises OSError."""
    descriptor = os.open(environments, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(f"another install or tidying holds {environments}; try again") from None
                time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def unfinished(environments: str) -> list[str]:
    """All that lies there and is no whole environment: also what nobody here ever made."""
    whole = shelf.whole_ones(environments)
    return [path for path in shelf.entries(environments) if path not in whole]


def remove(path: str) -> None:
    """A tree, a file or a link itself; nothing is followed, what is gone already is fine. Raises OSError."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(kind):
        os.unlink(path)
        return
    # rm(1) goes down any depth with few files open; shutil's needs one for each level.
    with contextlib.suppress(PermissionError):
        shelf.forget(path)
    if _told("rm", "-rf", "--", path):
        _told("chmod", "-R", "u+rwX", "--", path)
        words = _told("rm", "-rf", "--", path)
        if words:
            raise OSError(f"{path} cannot be removed: {words}")


def _told(*command: str) -> str:
    """Why it failed, in short; empty when it did not."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=RM_SECONDS, check=False, cwd="/"
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took over {RM_SECONDS:.0f} s"
    words = done.stderr.decode(errors="replace")[:300]
    return (words or f"{command[0]} ended with status {done.returncode}") if done.returncode else ""
