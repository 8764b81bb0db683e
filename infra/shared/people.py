"""Whose name commits carry."""

from __future__ import annotations

from typing import NamedTuple


class Person(NamedTuple):
    """Who commits."""

    name: str
    email: str


AGENT = Person("minifram agent", "agent@minifram.invalid")
WATCHER = Person("minifram watcher", "watcher@minifram.invalid")
