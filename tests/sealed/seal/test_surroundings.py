"""Each demand on the container is made: what is right passes, and one thing wrong is named."""

from __future__ import annotations

import stat
from typing import Any

import pytest

from infra.keep.seal.capabilities import FOR_SEALING, FOR_WATCHING, Held, bits, held, names, parse_status
from infra.keep.seal.surroundings import Mount, Surroundings, problems
from infra.shared.paths import CODE, CONTAINER

DIRECTORY, FILE = stat.S_IFDIR, stat.S_IFREG
REMOTE = CONTAINER.remote
SECRET = "/run/secrets/anthropic_api_key"


def right(**changes: Any) -> Surroundings:
    """A container as `minifram up` makes it, but for these changes."""
    rights = Held(0, bits(FOR_SEALING), bits(FOR_SEALING), bits(FOR_SEALING), 0, no_new_privileges=True, seccomp=True)
    mounts = {
        "/": Mount(1, True, DIRECTORY | 0o755, 0),
        CONTAINER.bot: Mount(2, False, DIRECTORY | 0o755, 1000),
        CONTAINER.events: Mount(3, False, DIRECTORY | 0o755, 0),
        CONTAINER.var: Mount(3, False, DIRECTORY | 0o700, 0),
        CONTAINER.run: Mount(4, False, DIRECTORY | 0o711, 0),
        CODE: Mount(4, False, DIRECTORY | 0o711, 0),
        REMOTE: Mount(5, False, DIRECTORY | 0o700, 0),
        f"{REMOTE}/objects": Mount(6, False, DIRECTORY | 0o755, 0),
        f"{REMOTE}/refs": Mount(6, False, DIRECTORY | 0o755, 0),
        f"{REMOTE}/HEAD": Mount(6, True, FILE | 0o644, 0),
        f"{REMOTE}/config": Mount(6, True, FILE | 0o644, 0),
        f"{REMOTE}/packed-refs": Mount(6, True, FILE | 0o644, 0),
        f"{REMOTE}/objects/info": Mount(6, True, DIRECTORY | 0o755, 0),
    }
    seen = Surroundings(0, 1, rights, mounts, {SECRET: Mount(7, False, FILE | 0o400, 0)})
    if "held" in changes:
        seen = seen._replace(held=rights._replace(**changes.pop("held")))
    if "mounts" in changes:
        seen = seen._replace(mounts=mounts | changes.pop("mounts"))
    return seen._replace(**changes)


WRONG = {
    "user": (right(uid=1000), "uid 1000"),
    "process": (right(pid=7), "process 7; expected 1"),
    "one capability more": (right(held={"bounding": bits(FOR_SEALING) | 1 << 21}), "must not have: capability 21"),
    "one capability less": (right(held={"permitted": bits(FOR_WATCHING)}), "lacks capabilities that the seal needs"),
    "new privileges": (right(held={"no_new_privileges": False}), "no-new-privileges is not set"),
    "seccomp": (right(held={"seccomp": False}), "no seccomp filter"),
    "root": (right(mounts={"/": Mount(1, False, DIRECTORY | 0o755, 0)}), "root file system can be written"),
    "bot": (right(mounts={CONTAINER.bot: Mount(2, True, DIRECTORY | 0o755, 1000)}), "/bot cannot be written"),
    "open to others": (right(mounts={REMOTE: Mount(5, False, DIRECTORY | 0o755, 0)}), "mode drwxr-xr-x"),
    "somebody's": (right(mounts={REMOTE: Mount(5, False, DIRECTORY | 0o700, 1000)}), "owner 1000"),
    "the whole host directory": (
        right(mounts={REMOTE: Mount(6, False, DIRECTORY | 0o700, 0)}),
        "the repository's top level can be written",
    ),
    "refs read-only": (right(mounts={f"{REMOTE}/refs": Mount(6, True, DIRECTORY, 0)}), "nothing could be pushed"),
    "HEAD writable": (right(mounts={f"{REMOTE}/HEAD": Mount(6, False, FILE | 0o644, 0)}), "HEAD can be written"),
    "config in the tmpfs": (right(mounts={f"{REMOTE}/config": Mount(5, True, FILE, 0)}), "config can be written"),
    "objects/info writable": (
        right(mounts={f"{REMOTE}/objects/info": Mount(6, False, DIRECTORY | 0o755, 0)}),
        "objects/info can be written",
    ),
    "secret for all": (right(secrets={SECRET: Mount(7, False, FILE | 0o444, 0)}), "mode -r--r--r--"),
    "secret of the cell": (right(secrets={SECRET: Mount(7, False, FILE | 0o400, 1000)}), "owner 1000"),
    "secret that is a link": (right(secrets={SECRET: Mount(7, False, stat.S_IFLNK | 0o777, 0)}), "expected a file"),
}


def test_what_is_right_passes() -> None:
    """No demand is made that the container as it should be does not meet, with a secret and without one."""
    assert problems(right(), CONTAINER) == []
    assert problems(right(secrets={}), CONTAINER) == []


@pytest.mark.parametrize(("seen", "words"), WRONG.values(), ids=WRONG)
def test_one_thing_wrong_is_named(seen: Surroundings, words: str) -> None:
    """The problem, in words that name the thing; the whole directory in one piece is wrong in each of its parts."""
    found = problems(seen, CONTAINER)
    assert len(found) == (6 if "top level" in words else 1)
    assert words in found[0]


def test_rights_are_read_from_the_kernel() -> None:
    """The text of /proc is understood; one that lacks a line is an error and not an empty set."""
    text = "CapInh:\t0\nCapPrm:\t00000000000010e0\nCapEff:\t0\nCapBnd:\tff\nCapAmb:\t0\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    found = parse_status(text)
    assert (found.permitted, found.bounding, found.no_new_privileges, found.seccomp) == (0x10E0, 0xFF, True, True)
    assert names(found.permitted) == "KILL, SETGID, SETUID, NET_ADMIN"
    assert names(0) == "none"
    with pytest.raises(LookupError, match="'CapBnd'"):
        parse_status(text.replace("CapBnd", "CapOther"))
    assert held().bounding >= 0
