"""The files of this project that are handed on: to an agent's first commit, and into the image of its container."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from host.errors import not_found
from infra.shared.mind.layout import FOLDERS, KEEP

IN_BOTH = ("SYSTEM.md", "COMMS.md", "spec", "infra", "pyproject.toml")
BORN_WITH = (*IN_BOTH, ".gitignore", ".gitattributes", "bot-template/mind")
"""What every agent's repository holds at first, beside tests: these play with the mind's template."""
TESTS = ("tests/__init__.py", "tests/conftest.py", "tests/shared", "tests/keep", "tests/cell")
"""Those that need neither a container nor the host."""
IN_IMAGE = (*IN_BOTH, "bot-template", "nftables", "podman", "requirements.lock")
BODY = "bot-template/body"
"""Laid over the rest, at the top of the repository."""
MIND_TEMPLATE = "bot-template/mind"
"""The first commit of the branch `mind`, but for its empty folders."""
_LEFT_OUT = ("__pycache__", "logs", ".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
_LEFT_OUT_ENDINGS = (".pyc", ".pyo", ".log", ".swp", ".orig", "~")


class Source(NamedTuple):
    """A file that is handed on."""

    path: str
    """In the agent's repository, or in the image."""
    file: str
    """Where its content is; empty for a file without any."""
    executable: bool


def version_of(root: str) -> str:
    with open(f"{root}/pyproject.toml", "rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def first_files(root: str) -> list[Source]:
    """Every file of an agent's first commit. Raises CommandError when the project lacks a part."""
    parts = (*BORN_WITH, *(part for part in TESTS if os.path.lexists(f"{root}/{part}")))
    found = {source.path: source for part in parts for source in files_of(root, part)}
    return sorted((found | {source.path: source for source in _files_below(root, BODY)}).values())


def mind_files(root: str) -> list[Source]:
    """Every file of the first commit of the mind. Raises CommandError when the project lacks a part."""
    given = _files_below(root, MIND_TEMPLATE)
    empty = [folder for folder in FOLDERS if not any(source.path.startswith(f"{folder}/") for source in given)]
    return sorted([*given, *(Source(f"{folder}/{KEEP}", "", False) for folder in empty)])


def image_files(root: str, parts: Sequence[str] = IN_IMAGE) -> list[Source]:
    """Every file that the image holds. Raises CommandError when the project lacks a part."""
    return [source for part in sorted(parts) for source in files_of(root, part)]


def files_of(root: str, part: str) -> Iterator[Source]:
    """The regular files of a file or folder of the project, without what tools leave behind. Raises CommandError."""
    path = f"{root}/{part}"
    if not os.path.lexists(path):
        raise not_found(f"the project at {root} is not whole: {part} is missing; run minifram from a fresh clone")
    mode, name = os.lstat(path).st_mode, os.path.basename(part)
    if name in _LEFT_OUT or name.endswith(_LEFT_OUT_ENDINGS):
        return
    if stat.S_ISDIR(mode):
        for inner in sorted(os.listdir(path)):
            yield from files_of(root, f"{part}/{inner}")
    elif stat.S_ISREG(mode):
        yield Source(part, path, bool(mode & 0o100))


def _files_below(root: str, folder: str) -> list[Source]:
    return [each._replace(path=each.path.removeprefix(f"{folder}/")) for each in files_of(root, folder)]
