"""The installed project: its version, and the files that agents and images are made of."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

from host.errors import not_found

_LEFT_OUT = ("__pycache__", "logs", ".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
_LEFT_OUT_ENDINGS = (".pyc", ".pyo", ".log", ".swp", ".orig", "~")


class Source(NamedTuple):
    """One file of the project."""

    path: str
    """Below the project; what is laid elsewhere has its place there."""
    file: str
    """Where its content is."""
    executable: bool


def version_of(root: str) -> str:
    with open(f"{root}/pyproject.toml", "rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def files_of(root: str, part: str) -> Iterator[Source]:
    """The regular files of a file or folder of the project, without what tools leave behind."""
    path = f"{root}/{part}"
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        raise not_found(
            f"the project at {root} is not whole: {part} is missing; run minifram from a fresh clone"
        ) from None
    name = os.path.basename(part)
    if name in _LEFT_OUT or name.endswith(_LEFT_OUT_ENDINGS):
        return
    if stat.S_ISDIR(status.st_mode):
        for inner in sorted(os.listdir(path)):
            yield from files_of(root, f"{part}/{inner}")
    elif stat.S_ISREG(status.st_mode):
        yield Source(part, path, bool(status.st_mode & 0o100))
