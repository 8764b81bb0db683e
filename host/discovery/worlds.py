"""Worlds: made by the generator into a directory of their own, or given by the PM, or the three files of the seed."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from host.discovery import scripts
from host.discovery.engine import problem_with_world
from host.errors import conflict, usage
from host.paths import DiscoveryPaths
from infra.shared.files import make_directories, write_whole

KNOWN = "known.json"
SIZE = "small"


class World(NamedTuple):
    directory: str
    """What is mounted."""
    known: str
    """The list of what can be known of it; empty for none."""


def given(path: str) -> World:
    """A directory to be mounted, or one that the generator made, which holds it beside the list. Raises
    CommandError."""
    path = os.path.abspath(path)
    inside = f"{path}/world"
    directory = inside if os.path.isdir(inside) and os.path.isfile(f"{path}/{KNOWN}") else path
    if problem := problem_with_world(directory):
        raise problem
    known = f"{os.path.dirname(directory)}/{KNOWN}"
    return World(directory, known if os.path.isfile(known) else "")


def of_the_seed(root: str) -> World:
    folder = f"{root}/{scripts.FOLDER}"
    return World(f"{folder}/world", f"{folder}/scoring/seed_known.json")


def make(
    places: DiscoveryPaths,
    root: str,
    environ: Mapping[str, str],
    seed: int,
    size: str | None,
    contents: int | None = None,
    out: str | None = None,
) -> World:
    """The world of these numbers, in `out` or where discovery keeps worlds; one that is there already is taken. Raises
    CommandError.

    The generator is public, and its seeds are numbers that people choose. So contents follow from a secret of this
    machine, too, unless their number is given; and no place tells the seed: a container sees where its mounts are."""
    size = size or SIZE
    make_directories(places.worlds, 0o700)
    if not re.fullmatch(r"[a-z0-9]{1,20}", size):
        raise usage(f"--size {size!r}: expected a name such as {SIZE}, or a number of files")
    if contents is None:
        contents = int.from_bytes(hmac.digest(_secret(places), f"{seed} {size}".encode(), "sha256")[:7])
    words = ["--seed", str(seed), "--size", size, "--contents", str(contents)]
    if out is not None:
        scripts.output(root, scripts.WORLD, *words, "--out", out, environ=environ)
        return given(out)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=places.worlds) as scratch:
        scripts.output(root, scripts.WORLD, *words, "--out", f"{scratch}/made", environ=environ)
        with open(f"{scratch}/made/{KNOWN}", "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        place = f"{places.worlds}/world-{digest}"
        with contextlib.suppress(OSError):  # it is there already, and not empty
            os.rename(f"{scratch}/made", place)
    if not os.path.isdir(f"{place}/world"):
        raise conflict(f"{place} is there, and holds no world; remove it and try again")
    return given(place)


def _secret(places: DiscoveryPaths) -> bytes:
    """Of this machine, made at the first use: no explorer knows it."""
    path = f"{places.data}/worlds.key"
    with tempfile.TemporaryDirectory(prefix=".new-", dir=places.data) as scratch:
        write_whole(f"{scratch}/key", secrets.token_bytes(32), mode=0o600)
        with contextlib.suppress(FileExistsError):
            os.link(f"{scratch}/key", path)
    with open(path, "rb") as file:
        return file.read()
