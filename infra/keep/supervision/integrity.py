"""Is main's clone what the shared repository says it is? Its own index, objects and ignore rules are no witnesses: they
are files of the version that led before.

So git hashes every file of the clone against a listing from the shared repository, through an index made of it. What
else lies there must be ignored by rules of main's own, and Python must import none of it in the place of what main has.
Bytecode goes: Python believes it if its source's size and time fit (PEP 552)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.machinery import all_suffixes
from typing import NamedTuple, TypeVar

from infra.keep.supervision.rescue import directories_of, scratch_index
from infra.shared.branches import MAIN
from infra.shared.repository.git import Git
from infra.shared.safe_files import Below
from infra.shared.safe_steps import NotPlain

INDEX = "genuine-index"
"""Beside the clone's own."""
_AS_IT_IS = ("-c", "core.symlinks=true", "-c", "core.fileMode=true", "-c", "core.ignoreCase=false")
"""A clone's own settings can make git overlook that a link or a right to execute is gone."""
_ALL = (
    *("--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignored=traditional"),
    *("--ignore-submodules=none", "--no-renames", "--no-ahead-behind"),
)
_RULES = (b".gitignore", b".gitattributes")
_BYTECODE = b".pyc"
_REPOSITORY = b"160000"
_SUFFIXES = tuple(suffix.encode() for suffix in all_suffixes())
_BODY, _LOGS = b"infra", b"logs"
_MOST_KEPT = 1 << 20
"""Bytes of a listing, and of its index, that a restart finds in memory."""
_listings: dict[tuple[str, str], bytes] = {}
_indexes: dict[bytes, bytes] = {}
"""Of the last commit, in a process that brings up one agent: neither can change, and each costs a git process."""


_Key = TypeVar("_Key")


class Blob(NamedTuple):
    mode: bytes
    id: bytes


def listing(shared: Git, commit: str) -> bytes:
    """Every path of a commit, named by its full id, with its mode and hash: `git ls-tree -r -z`. Raises GitError."""
    key = (shared.directory, commit)
    found = _listings.get(key)
    if found is None:
        found = shared.raw("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)
        _keep_last(_listings, key, found)
    return found


def _keep_last(kept: dict[_Key, bytes], key: _Key, content: bytes) -> None:
    kept.clear()
    if len(content) <= _MOST_KEPT:
        kept[key] = content


def is_intact(git: Git, commit: str, listed: bytes) -> bool:
    """Main is checked out at this commit, with nothing staged; the files are those of its listing, and no others could
    lead. Removes bytecode. Raises GitError, OSError."""
    wanted, checkout = _blobs(listed), Below(git.directory)
    for path, blob in wanted.items():
        with contextlib.suppress(FileNotFoundError):
            if blob.mode == _REPOSITORY and checkout.names(os.fsdecode(path), 1):  # the listing does not tell of it
                return False
    # By the clone's own index, at the same time: a restart waits for both.
    with git.beside("diff-index", "--cached", "--quiet", commit, "--") as has_nothing_staged:
        with scratch_index(git, INDEX, listed, _indexes.get(listed, b"")) as ours:
            # One byte more than is kept, and no more: main may hold any number of files.
            if listed not in _indexes and (made := checkout.piece(f".git/{INDEX}", _MOST_KEPT + 1, 0)):
                _keep_last(_indexes, listed, made.content)
            # This index knows no file's size or time, so git reads every file.
            fields = ours.raw(*_AS_IT_IS, "status", *_ALL).split(b"\0")[:-1]
        if not {b"# branch.oid " + commit.encode(), b"# branch.head " + MAIN.encode()} <= set(fields):
            return False
        others = [field[2:] for field in fields if field.startswith(b"! ")]
        changes = [field for field in fields if not field.startswith((b"# ", b"! "))]
        if not all(_only_looks_changed(checkout, change, wanted) for change in changes) or leading(others, wanted):
            return False
        if not has_nothing_staged():
            return False
    for path in bytecode(others):
        os.unlink(os.path.join(os.fsencode(git.directory), path))
    return True


def leading(others: Iterable[bytes], wanted: Iterable[bytes]) -> list[bytes]:
    """Of paths that the listing does not have (`/` at the end: a repository), those that git or Python would follow:
    rules for git where main has files; modules, or links that may be, that hide one of main's, of Python's or of a
    package's; and modules that rules which are not main's make git ignore."""
    directories = {above for path in wanted for above in directories_of(path)} | {b""}
    rules = {path for path in others if os.path.basename(path) in _RULES}
    found = [path for path in rules if os.path.dirname(path) in directories]
    hidden = tuple(os.path.dirname(path) + b"/" for path in rules)
    for path in others:
        top = _importable(path)
        is_hidden = path.startswith(hidden) and path.endswith((*_SUFFIXES, b"/"))
        if top and not path.endswith(_BYTECODE) and (top.decode() in _names_at_the_top() or is_hidden):
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


@cache
def _names_at_the_top() -> frozenset[str]:
    """Of the body, of Python, and of what is installed beside the keep's own programs."""
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    installed = (name.partition(".")[0] for path in paths for name in os.listdir(path))
    return frozenset({_BODY.decode(), *sys.stdlib_module_names, *installed})


def _blobs(listed: bytes) -> dict[bytes, Blob]:
    entries = (line.partition(b"\t") for line in listed.split(b"\0")[:-1])
    return {path: Blob(*facts.split(b" ")[::2]) for facts, _, path in entries}


def _only_looks_changed(checkout: Below, change: bytes, wanted: dict[bytes, Blob]) -> bool:
    """A file that main holds in a form which its own attributes would not give it, with other ends of lines perhaps,
    looks changed to git and is the same byte by byte. `change` is a line of git-status(1), version 2."""
    if not change.startswith(b"1 .M "):
        return False
    *_, before, after, _, _, path = change.split(b" ", 8)
    return before == after and _is_byte_for_byte(checkout, path, wanted[path])


def _is_byte_for_byte(checkout: Below, path: bytes, blob: Blob) -> bool:
    try:
        file = checkout.opened(os.fsdecode(path))
    except NotPlain:
        return False
    with file:
        sum = hashlib.sha1(b"blob %d\0" % os.fstat(file.fileno()).st_size, usedforsecurity=False)
        while piece := file.read(1 << 20):
            sum.update(piece)
    return sum.hexdigest().encode() == blob.id
