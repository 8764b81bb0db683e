"""Worlds on the host for trials of tools: the run's own again, and its twin, each in copies that differ in nothing but
where they lie."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from read_run import known_of
from run_files import Unreadable, parse_json, read_bounded
from run_values import WORLD, Known, Meta
from world_texts import read_world

GENERATOR = Path(__file__).with_name("world.py")
SEED_WORLD = Path(__file__).parents[1] / "world"
SECONDS = 300.0
MOST_CONTENTS = 2**62
SOME_TIME = 1_700_000_000
"""Of all files of all copies: a time that differs tells a tool nothing of the contents."""
Texts = Mapping[str, bytes]


class NoWorld(Exception):
    """This world cannot be had; the text says why."""


def original_texts(meta: Meta, known: Known, scratch: Path) -> Texts | None:
    """The contents of the run's world, from where it lay or made again; None when neither gives what is known of it."""
    place = meta.world_directory
    texts = read_world(Path(place) if place else None, known)
    if texts is None and meta.world_seed is None:
        return read_world(SEED_WORLD, known)
    if texts is None:
        try:
            return read_world(_made(meta, meta.world_contents, scratch / "again") / "world", known)
        except NoWorld:
            return None
    return texts


def twin_texts(meta: Meta, known: Known, scratch: Path) -> Texts:
    """The same names with other contents, which nobody can foresee. Raises NoWorld."""
    if meta.world_seed is None and read_world(SEED_WORLD, known) is None:
        raise NoWorld("the run's world is neither the project's own nor a generated one, so it has no twin")
    place = _made(meta, secrets.randbelow(MOST_CONTENTS), scratch / "twin")
    try:
        twin = known_of(parse_json(read_bounded(place / "known.json", 64 << 20) or b""))
    except (Unreadable, ValueError) as error:
        raise NoWorld(f"the twin cannot be read: {error}") from None
    if set(twin.files) != set(known.files):
        raise NoWorld("the twin has other names than the run's world: it was made by another version of world.py")
    texts = read_world(place / "world", twin)
    if texts is None:
        raise NoWorld("the twin is too large to be copied")
    return texts


def write_copy(texts: Texts, place: Path) -> Path:
    """A directory to be mounted as /world. Everybody can read it; all times in it are the same."""
    place.mkdir()
    for path, content in texts.items():
        file = place / path.removeprefix(f"{WORLD}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o644)
    for directory, _, names in os.walk(place, topdown=False):
        os.chmod(directory, 0o755)  # noqa: S103 - the container's user is nobody on the host
        for name in (*names, "."):
            os.utime(os.path.join(directory, name), (SOME_TIME, SOME_TIME))
    return place


def _made(meta: Meta, contents: int | None, out: Path) -> Path:
    words = [sys.executable, str(GENERATOR)]
    if meta.world_seed is None:
        words.append("--seed-world")
    else:
        words += ["--seed", str(meta.world_seed), "--size", str(meta.world_size)]
    if contents is not None:
        words += ["--contents", str(contents)]
    try:
        ended = subprocess.run(
            [*words, "--out", str(out)], capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoWorld(f"world.py: {error}") from None
    if ended.returncode:
        raise NoWorld(f"world.py cannot make it: {ended.stderr.strip()[-300:]}")
    return out
