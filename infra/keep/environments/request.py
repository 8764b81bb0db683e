"""What the watcher asks the installer for, as the words of its command line."""

from __future__ import annotations

from typing import NamedTuple

FREE_BYTES = 512 * 1024 * 1024
"""On the disk of the environments, before anything is installed; half of it stays free meanwhile."""


class InstallRequest(NamedTuple):
    """Install what `checkout` asks for; all paths are absolute, and below `bot`."""

    bot: str
    checkout: str
    environments: str
    wheels: str
    seconds: float
    free_bytes: int = FREE_BYTES


def to_words(request: InstallRequest) -> list[str]:
    """Behind `-m infra.keep.environments.install`."""
    return [str(value) for value in request]


def from_words(words: list[str]) -> InstallRequest:
    """Raises ValueError for words that are not `to_words`'."""
    bot, checkout, environments, wheels, seconds, free_bytes = words
    return InstallRequest(bot, checkout, environments, wheels, float(seconds), int(free_bytes))
