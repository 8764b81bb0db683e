"""What the watcher tells the installer, as words of its command line, and what the installer reads back from them."""

from __future__ import annotations

import argparse
from typing import NamedTuple

FREE_BYTES = 512 * 1024 * 1024
"""On the disk of the environments, before anything is installed; half of it stays free while that is done."""


class Order(NamedTuple):
    """Install what `checkout` asks for; all paths are absolute."""

    checkout: str
    environments: str
    wheels: str
    seconds: float
    free_bytes: int = FREE_BYTES


def to_words(order: Order) -> list[str]:
    """Behind `-m infra.keep.environments.install`."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in order._asdict().items()]


def from_words(words: list[str]) -> Order:
    """Ends the program with status 2 for words that are not `to_words`'."""
    parser = argparse.ArgumentParser(
        prog="install", description="Install what a checkout's requirements name.", allow_abbrev=False
    )
    for name in ("checkout", "environments", "wheels"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--free-bytes", type=int, default=FREE_BYTES)
    return Order(**vars(parser.parse_args(words)))
