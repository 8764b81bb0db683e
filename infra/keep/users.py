"""The users that the image has made for the programs of an agent."""

from __future__ import annotations

import os
import pwd

from infra.shared.identity import Identity


def user_named(name: str) -> Identity:
    """The identity of a user of this machine. Raises LookupError."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise LookupError(f"no such user: {name!r}; the image creates it") from None
    return Identity(entry.pw_uid, entry.pw_gid)


def leave_groups() -> None:
    """Leave all supplementary groups: they would stay in force within `acting`. Raises OSError."""
    os.setgroups([])
