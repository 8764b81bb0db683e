"""What the container must be like: looked at first, judged after, so that each demand is one line.

A container that was made by hand, or given more rights to get something to work, does not run the agent."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from infra.keep.seal.capabilities import FOR_SEALING, Held, bits, held, names
from infra.shared.paths import CODE, Paths

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
    mounts: dict[str, Mount]
    """By path."""
    secrets: dict[str, Mount]
    """By path: the files that podman put where the model door looks."""


def look(places: Paths) -> Surroundings:
    """Raises OSError for what is not there, LookupError, ValueError."""
    paths = ["/", *_writable(places), places.remote, *(f"{places.remote}/{name}" for name in (*INNER, *OUTER))]
    keys = sorted(os.listdir(places.secrets)) if os.path.lexists(places.secrets) else ()
    secrets = [f"{places.secrets}/{name}" for name in keys]
    return Surroundings(
        os.getuid(),
        os.getpid(),
        held(),
        {path: _mount(path) for path in paths},
        {path: _mount(path) for path in secrets},
    )


def problems(seen: Surroundings, places: Paths) -> list[str]:
    """Each demand that is not met, in words; nothing when the seal may be put on."""
    rights, needed, mounts, remote = seen.held, bits(FOR_SEALING), seen.mounts, places.remote
    top = mounts[remote]
    demands = [
        (seen.uid == 0, f"it runs as uid {seen.uid}; expected 0, the keep's"),
        (seen.pid == 1, f"it runs as process {seen.pid}; expected 1, so that everything ends with it"),
        (
            not rights.bounding & ~needed,
            f"it has capabilities that it must not have: {names(rights.bounding & ~needed)}",
        ),
        (
            not needed & ~rights.permitted,
            f"it lacks capabilities that the seal needs: {names(needed & ~rights.permitted)}",
        ),
        (rights.no_new_privileges, "no-new-privileges is not set"),
        (rights.seccomp, "no seccomp filter is in force"),
        (mounts["/"].is_read_only, "the root file system can be written"),
        *((not mounts[path].is_read_only, f"{path} cannot be written") for path in _writable(places)),
        (_is_private(top), f"{remote} has {_words(top)}; expected 0700 and 0"),
    ]
    for name in INNER:
        path, inner = f"{remote}/{name}", mounts[f"{remote}/{name}"]
        whole = f"{path} is not a mount of its own, so the repository's top level can be written"
        demands.append((inner.device != top.device, whole))
        demands.append((not inner.is_read_only, f"{path} cannot be written, so nothing could be pushed"))
    for name in OUTER:
        path, outer = f"{remote}/{name}", mounts[f"{remote}/{name}"]
        is_shut = outer.is_read_only and outer.device != top.device
        demands.append((is_shut, f"{path} can be written; expected a read-only mount"))
    for path, secret in seen.secrets.items():
        is_key = stat.S_ISREG(secret.mode) and _is_private(secret)
        demands.append((is_key, f"the secret {path} has {_words(secret)}; expected a file, 0400 and 0"))
    return [words for holds, words in demands if not holds]


def _writable(places: Paths) -> tuple[str, ...]:
    return places.bot, places.events, places.var, places.run, CODE


def _mount(path: str) -> Mount:
    """A link is none that can only be read. Raises OSError."""
    status = os.lstat(path)
    is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY) and not stat.S_ISLNK(status.st_mode)
    return Mount(status.st_dev, is_read_only, status.st_mode, status.st_uid)


def _is_private(found: Mount) -> bool:
    return found.uid == 0 and not found.mode & 0o077


def _words(found: Mount) -> str:
    return f"mode {stat.filemode(found.mode)} and owner {found.uid}"
