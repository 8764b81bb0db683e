"""Is main's clone what the shared repository says it is? Its own index and objects are no witness: both are files of
whoever led before, and git believes them without a look at what they speak of.

So the clone's files are held against a listing that was read in the shared repository, through an index made of it:
every file is hashed. And bytecode goes, which Python believes if only its source's size and time fit (PEP 552)."""

from __future__ import annotations

import contextlib
import os

from infra.repository.git import Git
from infra.supervision import rescue

INDEX = "genuine-index"
"""Beside the clone's own, which it replaces once it has been found right."""
_BYTECODE, _CACHE = ".pyc", "__pycache__"


def listing(shared: Git, commit: str) -> bytes:
    """All paths of a commit with their modes and hashes, `git ls-tree -r -z`. Raises GitError."""
    return shared.raw("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)


def is_genuine(git: Git, expected: rescue.Status, listed: bytes) -> bool:
    """The files are those of the listing, and there are no others but ignored ones. If so, the clone's index is made
    anew. Raises GitError, OSError."""
    git_directory = f"{git.directory}/.git"
    made = f"{git_directory}/{INDEX}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(made)
    ours = git.with_env(GIT_INDEX_FILE=made)
    ours.raw("update-index", "-z", "--index-info", stdin=listed)
    if rescue.status(ours) != expected:
        return False
    os.rename(made, f"{git_directory}/index")
    return True


def remove_bytecode(directory: str, listed: bytes) -> None:
    """Every module of the listing is compiled afresh when it is next imported. Raises OSError."""
    paths = {line.partition(b"\t")[2] for line in listed.split(b"\0") if line}
    for module_directory in {os.path.dirname(path) for path in paths}:
        for where in (module_directory, os.path.join(module_directory, _CACHE.encode())):
            _remove_bytecode_in(os.fsencode(directory), where, paths)


def _remove_bytecode_in(directory: bytes, where: bytes, but: set[bytes]) -> None:
    try:
        names = os.listdir(os.path.join(directory, where))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(where, name)
        if name.endswith(_BYTECODE.encode()) and path not in but:
            os.unlink(os.path.join(directory, path))
