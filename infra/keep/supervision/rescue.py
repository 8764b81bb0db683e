"""Saving what a clone holds and origin does not, as a pushed `rescue/<time>` branch.

Saved is what git would lose in a reset: changed, staged and untracked files, and the commits of local branches.
What a commit cannot hold (a repository inside the clone, an ignored file that the new main would overwrite) is an
error here, and the caller keeps the whole clone instead."""

from __future__ import annotations

import contextlib
import os
import time
from typing import NamedTuple

from infra.keep.git_door.pages import Graph, TooTangled
from infra.shared.branches import MAIN, RESCUE
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page_text import PAGES
from infra.shared.repository.tip import commit_tree, file_at, tree_with_entries


class CannotSave(Exception):
    """A branch cannot hold what the clone holds; says what."""


class Status(NamedTuple):
    commit: str
    branch: str
    dirty: bool


def status(git: Git) -> Status:
    """What the clone is at. The agent's own settings are not to hide anything, hence the options. Raises GitError."""
    shown = ("--untracked-files=normal", "--ignore-submodules=none", "--no-renames")
    fields = git.raw("status", "--porcelain=v2", "--branch", "-z", *shown).decode(errors="replace").split("\0")
    header: dict[str, str] = {}
    for field in fields:
        if not field.startswith("# "):
            break
        name, _, value = field[2:].partition(" ")
        header[name] = value
    dirty = any(field and not field.startswith("# ") for field in fields)
    return Status(header.get("branch.oid", ""), header.get("branch.head", ""), dirty)


def is_pushed(git: Git) -> bool:
    """Every commit of every local branch, and HEAD, is on some branch of origin."""
    return not git("rev-list", "--max-count=1", "HEAD", "--branches", "--not", "--remotes=origin")


def has_hidden_changes(git: Git) -> bool:
    """Files that git was told not to look at (assume-unchanged, skip-worktree): `status` says nothing about them."""
    listed = git.raw("ls-files", "-v", "-z").split(b"\0")
    return any(line[:1] == b"S" or line[:1].islower() for line in listed)


def would_be_overwritten(git: Git, wanted: str) -> str:
    """An ignored file in the place of a file of `wanted`: git would replace it without a word; '' for none."""
    ignored = git.raw("ls-files", "--others", "--ignored", "--exclude-standard", "-z").split(b"\0")
    if ignored == [b""]:
        return ""
    files = set(git.raw("ls-tree", "-r", "-z", "--name-only", "--full-tree", wanted).split(b"\0"))
    directories = {name[:end] for name in files for end, byte in enumerate(name) if byte == ord("/")}
    for path in filter(None, ignored):
        above = (path[:end] for end, byte in enumerate(path) if byte == ord("/"))
        if path.rstrip(b"/") in files | directories or any(part in files for part in above):
            return path.decode(errors="replace")
    return ""


def save(git: Git, found: Status, name_at: float) -> str:
    """Push a commit with all that the clone holds and origin does not; gives the branch's name.

    Raises GitError when it cannot be pushed, CannotSave when a commit cannot hold it."""
    index = os.path.join(git("rev-parse", "--absolute-git-dir"), "rescue-index")
    indexed = git.with_env(GIT_INDEX_FILE=index)
    staged = git.raw("ls-files", "--stage", "-z")
    try:
        # The clone's own entries, because a file that is ignored and was added by force is known by nothing else;
        # without their flags, so that no file is passed over.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(index)
        indexed.raw("update-index", "-z", "--index-info", stdin=staged)
        indexed("add", "--all")
        if any(entry.startswith(b"160000 ") for entry in indexed.raw("ls-files", "--stage", "-z").split(b"\0")):
            raise CannotSave("there is a repository inside it, whose files a branch cannot hold")
        tree = indexed("write-tree")
    finally:
        for left in (index, f"{index}.lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)
    parents = [found.commit, *git("for-each-ref", "--format=%(objectname)", "refs/heads").split()]
    parents += _staged(git, found, tree)
    tree = _with_mains_pages(git, tree, parents)
    commit = commit_tree(git, tree, tuple(dict.fromkeys(parents)), "rescue: what the clone of main held, not pushed")
    name = f"{RESCUE}{stamp(name_at)}"
    git("push", "--quiet", "origin", f"{commit}:refs/heads/{name}")
    return name


def _with_mains_pages(git: Git, tree: str, parents: list[str]) -> str:
    """The tree with COMMS.md and its archive as the git door wants them in a commit with these parents: whatever the
    clone has there is nobody's word. Raises CannotSave."""
    graph = Graph(git, resolve_commit(git, f"refs/remotes/origin/{MAIN}"))
    anchors = frozenset(filter(None, map(graph.anchor, parents)))
    try:
        anchor = graph.newest(anchors) if anchors else ""
    except TooTangled as error:
        raise CannotSave(str(error)) from None
    return tree_with_entries(git, tree, {page: file_at(git, anchor, page) if anchor else None for page in PAGES})


def _staged(git: Git, found: Status, tree: str) -> list[str]:
    """A commit of what is staged, when that is neither in the work tree nor in HEAD."""
    try:
        staged = git("write-tree")
    except GitError:  # in the middle of a merge: its two sides are commits already
        return []
    if staged in (tree, git("rev-parse", "HEAD^{tree}")):
        return []
    staged = _with_mains_pages(git, staged, [found.commit])
    return [commit_tree(git, staged, (found.commit,), "rescue: what was staged and not in the work tree")]


def stamp(now_wall: float) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_wall)) + f"{int(now_wall * 1000) % 1000:03d}Z"
