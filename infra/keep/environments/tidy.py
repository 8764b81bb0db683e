"""Remove environments that no branch needs, and the oldest wheels when there are many. The watcher runs this as the
cell, because there may be much to remove. What a branch's requirements lead to stays, and so does each environment that
is named to stay: the one in use, the known-good one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

from infra.keep.environments import store
from infra.keep.environments.requirements import BadRequirements
from infra.shared.clones import with_clones
from infra.shared.safe_files import Below, Entry

SPARE = 2
"""Of those that no branch leads to, so many of the newest stay: a branch that comes back needs no install."""
WHEELS_BYTES = 512 * 1024 * 1024
LOCK_SECONDS = 5.0
_MOST_WHEELS = 10_000


class Environment(NamedTuple):
    path: str
    hash: str
    """Empty for what is not whole."""
    made: float


class Wheel(NamedTuple):
    path: str
    size: int
    made: float


def unused(found: Iterable[Environment], named: frozenset[str], stay: frozenset[str], spare: int = SPARE) -> list[str]:
    """The paths to remove, given the hashes that branches lead to and the paths that stay whatever they are."""
    going, free, seen = [], [], set()
    for each in sorted(found):  # of equal ones the first is the one that `store.select` takes
        if each.path in stay:
            seen.add(each.hash)
        elif not each.hash or each.hash in seen:
            going.append(each.path)
        else:
            seen.add(each.hash)
            free += [] if each.hash in named else [each]
    newest = sorted(free, key=lambda each: each.made, reverse=True)
    return sorted([*going, *(each.path for each in newest[spare:])])


def oldest(wheels: Iterable[Wheel], limit: int = WHEELS_BYTES) -> list[str]:
    """As many as have to go, until the others are within the limit."""
    going, size = [], sum(wheel.size for wheel in wheels)
    for wheel in sorted(wheels, key=lambda wheel: (wheel.made, wheel.path)):
        if size <= limit:
            break
        going.append(wheel.path)
        size -= wheel.size
    return going


def main(argv: list[str]) -> int:
    """The words are `tidy`'s arguments in their order, with all that stay at the end."""
    root, environments, wheels, *stay = argv
    problems = tidy(root, environments, wheels, frozenset(stay))
    for problem in problems:
        print(f"tidy: {problem}", file=sys.stderr)
    return 1 if problems else 0


def tidy(
    root: str, environments: str, wheels: str, stay: frozenset[str], lock_seconds: float = LOCK_SECONDS
) -> list[str]:
    """Does what it can and gives what it could not. Each removal is printed."""
    bot = Below(root)
    problems: list[str] = []
    if bot.is_directory(environments):
        try:
            with store.alone_in(environments, time.monotonic() + lock_seconds):
                named = _named(bot)
                problems += _removed(bot, unused(_environments(bot, environments), named, stay))
        except OSError as error:
            problems.append(str(error))
    found = bot.walk(wheels, depth=0, most=_MOST_WHEELS, enter=lambda _: False) if bot.is_directory(wheels) else ()
    kept = [each for each in found if isinstance(each, Entry)]
    return problems + _removed(bot, oldest(Wheel(e.path, e.status.st_size, e.status.st_mtime) for e in kept))


def _removed(bot: Below, paths: list[str]) -> list[str]:
    problems = []
    for path in paths:
        try:
            store.remove(bot, path)
        except OSError as error:
            problems.append(str(error))
        else:
            print(path)
    return problems


def _environments(bot: Below, environments: str) -> list[Environment]:
    whole = store.whole_ones(bot, environments)
    marked = ((path, bot.status(f"{path}/{store.MARKER}")) for path in store.entries(bot, environments))
    return [Environment(path, whole.get(path, ""), mark.st_mtime if mark else 0.0) for path, mark in marked]


def _named(bot: Below) -> frozenset[str]:
    """The hashes that the clones of branches lead to. Raises OSError when some may have been missed."""
    branches, unseen = with_clones(bot)
    for each in unseen:
        if not each.path:
            raise OSError(f"{bot.root} {each.why}; remove the directories that do not belong to a branch")
    found = set()
    for branch in branches:
        try:
            source, content = store.read_requirements(bot, f"{branch}/minifram")
            found.add(store.wanted_hash(content, None, source))
        except BadRequirements:
            continue
    return frozenset(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
