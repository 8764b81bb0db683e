"""What the container must be like: looked at first, judged after, so that each demand is one line.

A container that was made by hand, or given more rights to get something to work, does not run the agent."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from infra.keep.seal.capabilities import FOR_SEALING, Held, bits, held, names
from infra.shared.paths import Paths

INNER = ("objects", "refs")
"""What of the bare repository may be written from inside."""
OUTER = ("HEAD", "config", "packed-refs", "objects/info")
"""What of it may only be read."""


class Mount(NamedTuple):
    device: int
    is_read_only: bool
    mode: int
    uid: int


class Surroundings(NamedTuple):
    """The container from inside, before the seal."""

    uid: int
    pid: int
    held: Held
    mounts: dict[str, Mount | None]
    """By path; None for what is not there."""
    secrets: dict[str, Mount | None]
    """By path."""


def look(places: Paths, secrets: list[str]) -> Surroundings:
    """Raises OSError, ValueError."""
    paths = ["/", places.bot, places.events, places.var, places.run, places.remote]
    paths += [f"{places.remote}/{name}" for name in (*INNER, *OUTER)]
    return Surroundings(
        os.getuid(),
        os.getpid(),
        held(),
        {path: _mount(path) for path in paths},
        {path: _mount(path) for path in secrets},
    )


def _mount(path: str) -> Mount | None:
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return Mount(status.st_dev, False, status.st_mode, status.st_uid)
        return Mount(status.st_dev, bool(os.statvfs(path).f_flag & os.ST_RDONLY), status.st_mode, status.st_uid)
    except FileNotFoundError:
        return None


def problems(seen: Surroundings, places: Paths) -> Iterator[str]:
    """Each demand that is not met, in words; nothing when the seal may be put on."""
    if seen.uid != 0:
        yield f"it runs as uid {seen.uid}; expected 0, the keep's"
    if seen.pid != 1:
        yield f"it runs as process {seen.pid}; expected 1, so that everything ends with it"
    yield from _problems_with_rights(seen.held)
    yield from _problems_with_mounts(seen.mounts, places)
    for path, secret in seen.secrets.items():
        if secret is None:
            continue
        if not stat.S_ISREG(secret.mode):
            yield f"the secret {path} is not a regular file"
        elif secret.uid != 0 or secret.mode & 0o077:
            mode = stat.S_IMODE(secret.mode)
            yield f"the secret {path} has mode {mode:04o} and owner {secret.uid}; expected 0400 and 0"


def _problems_with_rights(found: Held) -> Iterator[str]:
    wanted = bits(FOR_SEALING)
    if found.bounding & ~wanted:
        yield f"it has capabilities that it must not have: {names(found.bounding & ~wanted)}"
    if wanted & ~found.permitted:
        yield f"it lacks capabilities that the seal needs: {names(wanted & ~found.permitted)}"
    if not found.no_new_privileges:
        yield "no-new-privileges is not set"
    if not found.seccomp:
        yield "no seccomp filter is in force"


def _problems_with_mounts(mounts: dict[str, Mount | None], places: Paths) -> Iterator[str]:
    missing = [path for path, mount in mounts.items() if mount is None]
    if missing:
        yield f"nothing is mounted at {', '.join(missing)}"
        return
    found = {path: mount for path, mount in mounts.items() if mount}
    if not found["/"].is_read_only:
        yield "the root file system can be written"
    for path in (places.bot, places.events, places.var, places.run):
        if found[path].is_read_only:
            yield f"{path} cannot be written"
    top = found[places.remote]
    if top.mode & 0o077 or top.uid != 0:
        yield f"{places.remote} has mode {stat.S_IMODE(top.mode):04o} and owner {top.uid}; expected 0700 and 0"
    for name in INNER:
        inner = found[f"{places.remote}/{name}"]
        if inner.device == top.device:
            yield f"{places.remote}/{name} is not a mount of its own, so the repository's top level can be written"
        elif inner.is_read_only:
            yield f"{places.remote}/{name} cannot be written, so nothing could be pushed"
    for name in OUTER:
        outer = found[f"{places.remote}/{name}"]
        if outer.device == top.device or not outer.is_read_only:
            yield f"{places.remote}/{name} can be written; expected a read-only mount"
