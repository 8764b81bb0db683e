"""Makes worlds to discover.

    python3 scoring/world.py --seed 7 --size small --out /tmp/world7
    python3 scoring/world.py --seed 7 --size small --contents 8 --out /tmp/twin     # the same names, other contents
    python3 scoring/world.py --seed-world --contents 8 --out /tmp/twin              # of the three files of ../world

DIR/world is what a container mounts; DIR/known.json, beside it, tells what can be known of it and never goes into a
container. The same words make the same bytes on any machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import seed_world
from world_fill import World, fill
from world_plan import LEAST, MOST, SIZES, plan

MOST_SEED = 2**63


class Refused(Exception):
    """What was asked for cannot be made, and what to do."""


def make(seed: int, size: str | int, contents: int | None = None) -> World:
    """The world of this seed: `size` is a name of SIZES or a number of files. `contents` other than the seed gives a
    twin: the same paths with other contents. Raises Refused."""
    count = _count(size)
    for name, number in (("seed", seed), ("contents", seed if contents is None else contents)):
        if not 0 <= number < MOST_SEED:
            raise Refused(f"--{name} {number}: expected a whole number from 0 to 2**63 - 1")
    return fill(plan(seed, count), seed if contents is None else contents, size)


def twin(seed: int | None, size: str | int | None, contents: int) -> World:
    """The twin of the world that a run's `meta.json` tells by seed and size; without a seed, that of the seed world.
    Raises Refused."""
    if seed is None or size is None:
        return seed_world.twin(contents)
    return make(seed, size, contents)


def write(world: World, out: Path) -> Path:
    """Put the world into `out`, which is made if it is not there, and return the directory to be mounted. Everybody can
    read the files, as the container's user is nobody on the host. Raises Refused when `out` holds anything."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise Refused(f"--out {out}: it exists and is not empty. Name another directory, or remove it first")
        root = out / "world"
        root.mkdir()
        for path, text in world.texts.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        for directory, _, names in os.walk(root):
            os.chmod(directory, 0o755)  # noqa: S103 (the container's user is a stranger)
            for name in names:
                os.chmod(os.path.join(directory, name), 0o644)
        (out / "known.json").write_bytes(known_text(world).encode())
    except OSError as error:
        raise Refused(f"--out {out}: {error.strerror or error}. Name a directory that can be written") from error
    return root


def known_text(world: World) -> str:
    """known.json."""
    return json.dumps(world.known, indent=1) + "\n"


def _count(size: str | int) -> int:
    if isinstance(size, str) and size in SIZES:
        return SIZES[size]
    sizes = f"expected {', '.join(SIZES)} or a number of files from {LEAST} to {MOST}"
    try:
        count = int(size)
    except ValueError:
        raise Refused(f"--size {size}: {sizes}") from None
    if not LEAST <= count <= MOST:
        raise Refused(f"--size {size}: {sizes}")
    return count


def _whole(name: str, text: str) -> int:
    """The number, as a person writes it: no sign, no blanks, no underscores."""
    if not (text.isascii() and text.isdecimal()):
        raise Refused(f"--{name} {text}: expected a whole number from 0 to 2**63 - 1")
    return int(text[:30])


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make a world to discover.", allow_abbrev=False)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", metavar="N", help="the world's number: its names and its structure follow from it")
    which.add_argument("--seed-world", action="store_true", help="a twin of the three files that lie in ../world")
    parser.add_argument("--size", metavar="S", help=f"{', '.join(SIZES)} or a number of files from {LEAST} to {MOST}")
    parser.add_argument("--contents", metavar="M", help="the contents' number, which is the seed when none is given")
    parser.add_argument("--out", metavar="DIR", required=True, type=Path, help="a directory, new or empty")
    given = parser.parse_args(words)
    try:
        contents = None if given.contents is None else _whole("contents", given.contents)
        if given.seed_world:
            if contents is None or given.size is not None:
                raise Refused("--seed-world: expected --contents M with it, and no --size")
            made = twin(None, None, contents)
        elif given.size is None:
            raise Refused(f"--size: expected {', '.join(SIZES)} or a number of files with --seed")
        else:
            made = make(_whole("seed", given.seed), int(given.size) if given.size.isdecimal() else given.size, contents)
        root = write(made, given.out)
    except Refused as refused:
        print(f"world.py: {refused}", file=sys.stderr)
        return 2
    print(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
