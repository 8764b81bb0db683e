"""Remove environments that nobody will miss, and the oldest wheels when there are many. Run by the watcher as the cell,
because there may be much to remove. One that a branch's requirements lead to stays, as does each that is named to stay:
the one in use, the known-good one."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from infra.keep.environments import shelf
from infra.keep.environments.removal import alone_in, remove
from infra.keep.environments.requirements import BadRequirements, fingerprint, this_runtime, understand
from infra.shared.branches import MAX_PARTS, MIND

SPARE = 2
"""Of those that no branch leads to, the newest so many stay: a branch that comes back needs no install."""
WHEELS_BYTES = 512 * 1024 * 1024
LOCK_SECONDS = 5.0
MAX_LOOKED = 20_000
"""Directories that are looked through for branches; with more, nothing is removed, for some might be missed."""


class Entry(NamedTuple):
    path: str
    hash: str
    """Empty for what is not whole."""
    made: float


class Wheel(NamedTuple):
    path: str
    size: int
    made: float


def which_go(entries: Iterable[Entry], named: frozenset[str], stay: frozenset[str], spare: int = SPARE) -> list[str]:
    """The paths to remove, given the hashes that branches lead to and the paths that stay whatever they are."""
    going, unused, seen = [], [], set()
    for entry in sorted(entries):  # of equal ones the first is the one that `choose` takes
        if entry.path in stay:
            seen.add(entry.hash)
        elif not entry.hash or entry.hash in seen:
            going.append(entry.path)
        else:
            seen.add(entry.hash)
            unused += [] if entry.hash in named else [entry]
    newest = sorted(unused, key=lambda entry: entry.made, reverse=True)
    return sorted([*going, *(entry.path for entry in newest[spare:])])


def wheels_that_go(wheels: Sequence[Wheel], limit: int = WHEELS_BYTES) -> list[str]:
    """The oldest, until the others are within the limit."""
    going, size = [], sum(wheel.size for wheel in wheels)
    for wheel in sorted(wheels, key=lambda wheel: (wheel.made, wheel.path)):
        if size <= limit:
            break
        going.append(wheel.path)
        size -= wheel.size
    return going


def words(bot: str, environments: str, wheels: str, stay: Iterable[str]) -> list[str]:
    """Behind `-m infra.keep.environments.tidy`. `stay` are environments' paths."""
    return [f"--bot={bot}", f"--environments={environments}", f"--wheels={wheels}", *(f"--stay={one}" for one in stay)]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tidy", description="Remove unused environments.", allow_abbrev=False)
    for name in ("bot", "environments", "wheels"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--stay", action="append", default=[])
    given = parser.parse_args(argv)
    problems = tidy(given.bot, given.environments, given.wheels, frozenset(given.stay))
    for problem in problems:
        print(f"tidy: {problem}", file=sys.stderr)
    return 1 if problems else 0


def tidy(
    bot: str, environments: str, wheels: str, stay: frozenset[str], lock_seconds: float = LOCK_SECONDS
) -> list[str]:
    """Does what it can and gives what it could not. Each removal is printed."""
    problems: list[str] = []
    works: tuple[Callable[[], list[str]], ...] = (
        partial(_tidy_environments, bot, environments, stay, lock_seconds),
        partial(_tidy_wheels, wheels),
    )
    for work in works:
        try:
            problems += work()
        except (FileNotFoundError, NotADirectoryError):  # nobody has asked for an environment yet
            continue
        except OSError as error:
            problems.append(str(error))
    return problems


def _tidy_environments(bot: str, environments: str, stay: frozenset[str], lock_seconds: float) -> list[str]:
    with alone_in(environments, time.monotonic() + lock_seconds):
        going = which_go(_entries(environments), _named(bot), stay)
        return [problem for problem in map(_removed, going) if problem]


def _tidy_wheels(wheels: str) -> list[str]:
    return [problem for problem in map(_removed, wheels_that_go(list(_wheels(wheels)))) if problem]


def _removed(path: str) -> str:
    try:
        remove(path)
    except OSError as error:
        return str(error)
    print(path)
    return ""


def _entries(environments: str) -> list[Entry]:
    whole = shelf.whole_ones(environments)
    return [Entry(path, whole.get(path, ""), _made(path)) for path in shelf.entries(environments)]


def _made(path: str) -> float:
    """When it became whole."""
    try:
        return os.stat(f"{path}/{shelf.MARKER}", follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _wheels(directory: str) -> Iterator[Wheel]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield Wheel(entry.path, status.st_size, status.st_mtime)


def _named(bot: str) -> frozenset[str]:
    """The hashes that the clones of branches lead to. Raises OSError."""
    runtime, found = this_runtime(), set()
    for checkout in _checkouts(bot):
        try:
            source, content = shelf.read_requirements(checkout)
            if content is not None:
                found.add(fingerprint(understand(content, source), runtime))
        except (BadRequirements, NotADirectoryError):
            continue
    return frozenset(found)


def _checkouts(bot: str) -> Iterator[str]:
    """Every `<branch>/minifram` that can be one, not looking into it. Raises OSError."""
    looked, left = 0, [(bot, 0)]
    while left:
        directory, depth = left.pop()
        looked += 1
        if looked > MAX_LOOKED:
            raise OSError(f"over {MAX_LOOKED} directories in {bot}; remove those that are no branches")
        try:
            entries = os.scandir(directory)
        except PermissionError:
            continue
        with entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name == MIND or not entry.is_dir(follow_symlinks=False):
                    continue
                if entry.name == "minifram":
                    yield entry.path
                elif depth < MAX_PARTS:
                    left.append((entry.path, depth + 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
