"""Is main's clone what the shared repository says it is? Its own index, objects and rules of what to ignore are no
witnesses: all are files of whoever led before.

So the clone's files are held against a listing that was read in the shared repository, through an index made of it:
every file is hashed. What else lies there must be ignored by rules of main's own, and nothing that Python would import
in the place of what main has. Bytecode goes: Python believes it if its source's size and time fit (PEP 552)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.machinery import all_suffixes
from typing import NamedTuple

from infra.shared.repository.git import Git

INDEX = "genuine-index"
"""Beside the clone's own."""
_AS_IT_IS = ("-c", "core.symlinks=true", "-c", "core.fileMode=true", "-c", "core.ignoreCase=false")
"""A clone's own settings can make git overlook that a link or a right to execute is gone."""
_RULES = (b".gitignore", b".gitattributes")
_BYTECODE = b".pyc"
_REPOSITORY = b"160000"
_SUFFIXES = tuple(suffix.encode() for suffix in all_suffixes())
_BODY, _LOGS = b"infra", b"logs"


class Blob(NamedTuple):
    mode: bytes
    id: bytes


def listing(shared: Git, commit: str) -> bytes:
    """All paths of a commit with their modes and hashes, `git ls-tree -r -z`. Raises GitError."""
    return shared.raw("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)


def is_intact(git: Git, listed: bytes) -> bool:
    """The files are those of the listing, and no others that could lead. Bytecode is removed.

    Raises GitError, OSError."""
    wanted = _blobs(listed)
    made = f"{git.directory}/.git/{INDEX}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(made)
    try:
        ours = git.with_env(GIT_INDEX_FILE=made)
        ours.raw("update-index", "-z", "--index-info", stdin=listed)
        if not _holds(ours, wanted) or ours.raw("ls-files", "--others", "--exclude-standard", "-z"):
            return False
        others = [path for path in ours.raw("ls-files", "--others", "-z").split(b"\0") if path]
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)
    if leading(others, wanted):
        return False
    for path in bytecode(others):
        os.unlink(os.path.join(os.fsencode(git.directory), path))
    return True


def leading(others: Iterable[bytes], wanted: Iterable[bytes]) -> list[bytes]:
    """Of paths that the listing does not have (`/` at the end: a repository), those that git or Python would follow:
    rules for git where main has files; modules, or links that may be, that hide one of main's, of Python's or of a
    package's; and modules that rules which are not main's make git ignore."""
    directories = {path[:end] for path in wanted for end, byte in enumerate(path) if byte == ord("/")} | {b""}
    rules = {path for path in others if os.path.basename(path) in _RULES}
    found = [path for path in rules if os.path.dirname(path) in directories]
    hidden = tuple(os.path.dirname(path) + b"/" for path in rules)
    for path in others:
        top = _importable(path)
        is_hidden = path.startswith(hidden) and path.endswith((*_SUFFIXES, b"/"))
        if top and not path.endswith(_BYTECODE) and (_shadows(top) or is_hidden):
            found.append(path)
    return found


def bytecode(others: Iterable[bytes]) -> list[bytes]:
    return [path for path in others if path.endswith(_BYTECODE) and _importable(path)]


def _importable(path: bytes) -> bytes:
    """The name at the top by which Python can come to this file; empty when it cannot."""
    if not path.endswith((*_SUFFIXES, b"/")) and b"." in os.path.basename(path):
        return b""
    *directories, name = path.rstrip(b"/").split(b"/")
    names = [*directories, name.partition(b".")[0]]
    if names[0] == _LOGS or not all(each.decode("ascii", "replace").isidentifier() for each in names):
        return b""
    return names[0]


def _shadows(top: bytes) -> bool:
    return top == _BODY or top.decode() in sys.stdlib_module_names or top in _installed()


@cache
def _installed() -> frozenset[bytes]:
    """Names at the top of what is installed beside the keep's own programs."""
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return frozenset(os.fsencode(name).partition(b".")[0] for path in paths for name in os.listdir(path))


def _blobs(listed: bytes) -> dict[bytes, Blob]:
    found = {}
    for line in filter(None, listed.split(b"\0")):
        facts, _, path = line.partition(b"\t")
        mode, _, id = facts.split(b" ")
        found[path] = Blob(mode, id)
    return found


def _holds(ours: Git, wanted: dict[bytes, Blob]) -> bool:
    """Every file is what its entry says. One that main holds in a form which its own attributes would not give it, with
    other ends of lines perhaps, looks changed to git and is compared byte by byte."""
    for path, blob in wanted.items():
        if blob.mode == _REPOSITORY and _has_content(ours.directory, path):  # which the listing says nothing about
            return False
    fields = iter(ours.raw(*_AS_IT_IS, "diff-files", "--raw", "-z", "--no-abbrev").split(b"\0"))
    for field in fields:
        if not field:
            continue
        path, (before, after, *_, how) = next(fields), field.removeprefix(b":").split(b" ")
        if how != b"M" or before != after or not _is_byte_for_byte(ours.directory, path, wanted[path]):
            return False
    return True


def _has_content(directory: str, path: bytes) -> bool:
    try:
        return bool(os.listdir(os.path.join(os.fsencode(directory), path)))
    except FileNotFoundError:
        return False


def _is_byte_for_byte(directory: str, path: bytes, blob: Blob) -> bool:
    descriptor = os.open(os.path.join(os.fsencode(directory), path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return False
        sum = hashlib.sha1(b"blob %d\0" % found.st_size, usedforsecurity=False)
        while piece := file.read(1 << 20):
            sum.update(piece)
    return sum.hexdigest().encode() == blob.id
