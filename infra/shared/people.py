"""Whose name commits carry."""

from __future__ import annotations

from typing import NamedTuple


class Person(NamedTuple):
    """Who commits."""

    name: str
    email: str


AGENT = Person("minifram agent", "agent@minifram.invalid")
WATCHER = Person("minifram watcher", "watcher@minifram.invalid")

LOOKED_BACK = 1000
"""Commits on main that are searched for one of the PM's."""


def is_the_pms(email: str) -> bool:
    """Whether a commit of this committer is the PM's word: neither the agent nor the keep has made it."""
    return email.strip().lower() not in (AGENT.email, WATCHER.email)
