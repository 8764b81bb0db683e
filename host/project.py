"""The files of this project that are handed on: to an agent's first commit, and into the image of its container."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

from host.errors import CommandError
from infra.shared.exit_codes import Exit
from infra.shared.mind.layout import FOLDERS, KEEP

BORN_WITH = (
    *("SYSTEM.md", "COMMS.md", "spec", "infra", "pyproject.toml", ".gitignore", ".gitattributes"),
    "bot-template/mind",
)
"""What every agent's repository holds at first, beside the tests of `infra`'s own folders: the mind's template, because
they play with it."""
BODY = "bot-template/body"
"""Laid over the rest, at the top of the repository."""
MIND_TEMPLATE = "bot-template/mind"
"""The first commit of the branch `mind`, but for its empty folders."""
IMAGE_LIST = ".containerignore"
"""Its lines with `!` name what the image holds."""

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
    found = {source.path: source for part in [*BORN_WITH, *_tests(root)] for source in files_of(root, part)}
    for source in files_of(root, BODY):
        inside = source.path.removeprefix(f"{BODY}/")
        found[inside] = source._replace(path=inside)
    return [found[path] for path in sorted(found)]


def mind_files(root: str) -> list[Source]:
    """Every file of the first commit of the mind. Raises CommandError when the project lacks a part."""
    given = [
        source._replace(path=source.path.removeprefix(f"{MIND_TEMPLATE}/")) for source in files_of(root, MIND_TEMPLATE)
    ]
    empty = [folder for folder in FOLDERS if not any(source.path.startswith(f"{folder}/") for source in given)]
    return sorted([*given, *(Source(f"{folder}/{KEEP}", "", False) for folder in empty)])


def _tests(root: str) -> list[str]:
    """What needs neither a container nor the host: the tests of each folder of `infra`, and what they share."""
    names = sorted(os.listdir(f"{root}/tests")) if os.path.isdir(f"{root}/tests") else []
    return [
        f"tests/{name}"
        for name in names
        if os.path.isdir(f"{root}/infra/{name}") or name in ("__init__.py", "conftest.py")
    ]


def image_files(root: str) -> list[Source]:
    """Every file that the image holds. Raises CommandError when the project lacks a part."""
    parts = re.findall(r"^!(\S+)$", text_of(root, IMAGE_LIST), re.MULTILINE)
    return [source for part in parts for source in files_of(root, part)]


def text_of(root: str, part: str) -> str:
    """Raises CommandError when it is missing."""
    (source,) = files_of(root, part)
    with open(source.file, encoding="utf-8") as file:
        return file.read()


def files_of(root: str, part: str) -> Iterator[Source]:
    """The regular files of a file or folder of the project, without what tools leave behind. Raises CommandError."""
    path = f"{root}/{part}"
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        raise CommandError(
            Exit.NOT_FOUND, f"the project at {root} is not whole: {part} is missing; run minifram from a fresh clone"
        ) from None
    name = os.path.basename(part)
    if name in _LEFT_OUT or name.endswith(_LEFT_OUT_ENDINGS):
        return
    if stat.S_ISDIR(status.st_mode):
        for inner in sorted(os.listdir(path)):
            yield from files_of(root, f"{part}/{inner}")
    elif stat.S_ISREG(status.st_mode):
        yield Source(part, path, bool(status.st_mode & 0o100))
