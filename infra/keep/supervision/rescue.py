"""Saving what a clone holds and origin does not, as a pushed `rescue/<time>` branch.

Saved is what git would lose in a reset: changed, staged and untracked files, and the commits of local branches. What a
commit cannot hold (a repository inside the clone, an ignored file that the new main would overwrite) is an error, and
the caller keeps the whole clone instead."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from infra.keep.git_door import hook
from infra.keep.repository.main_pages import PagesDiffer, anchor_of
from infra.shared.branches import MAIN, RESCUE
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page_text import PAGES
from infra.shared.repository.tip import commit_tree, file_at, tree_with_entries
from infra.shared.safe_files import Below
from infra.shared.text import counted, cut, plain

DOOR_SECONDS = 10.0

MOST_COUNTED, MOST_NAMED, NAME_CHARS = 1000, 5, 80
"""Of commits; of files and commits; of one name."""


class CannotSave(Exception):
    """A branch cannot hold what the clone holds; says what."""


class Status(NamedTuple):
    commit: str
    branch: str
    dirty: bool


def status(git: Git) -> Status:
    """What the clone is at. The options win over settings of the agent's that hide something. Raises GitError."""
    shown = ("--untracked-files=normal", "--ignore-submodules=none", "--no-renames")
    fields = git.raw("status", "--porcelain=v2", "--branch", "-z", *shown).decode(errors="replace").split("\0")
    header = dict(field[2:].split(" ", 1) for field in takewhile(lambda field: field.startswith("# "), fields))
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
    """An ignored file in the place of a file of `wanted`, which git would replace without a word; '' for none."""
    ignored = git.raw("ls-files", "--others", "--ignored", "--exclude-standard", "-z").split(b"\0")[:-1]
    if not ignored:
        return ""
    files = set(git.raw("ls-tree", "-r", "-z", "--name-only", "--full-tree", wanted).split(b"\0"))
    directories = {above for name in files for above in directories_of(name)}
    for path in ignored:
        if path.rstrip(b"/") in files | directories or not files.isdisjoint(directories_of(path)):
            return path.decode(errors="replace")
    return ""


def directories_of(path: bytes) -> list[bytes]:
    """All directories above a path."""
    return [path[:end] for end, byte in enumerate(path) if byte == ord("/")]


@contextlib.contextmanager
def scratch_index(git: Git, name: str, entries: bytes, made: bytes = b"") -> Iterator[Git]:
    """The same git with an index of our own beside the clone's, filled with what `update-index --index-info` reads, or
    with what git has `made` of it before."""
    path = f"{git.directory}/.git/{name}"
    for left in (path, f"{path}.lock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
    try:
        indexed = git.with_env(GIT_INDEX_FILE=path)
        if made:
            with os.fdopen(Below(git.directory).open_to_append(path)[0], "wb") as index:
                index.write(made)
        else:
            indexed.raw("update-index", "-z", "--index-info", stdin=entries)
        yield indexed
    finally:
        for left in (path, f"{path}.lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)


def save(git: Git, found: Status, name_at: float) -> str:
    """Push a commit with all that the clone holds and origin does not; gives the branch's name, and what is there.

    Raises GitError when it cannot be pushed, CannotSave when a commit cannot hold it."""
    # The clone's own entries, as nothing else knows of an ignored file that was added by force; without their flags,
    # so that no file is passed over.
    with scratch_index(git, "rescue-index", git.raw("ls-files", "--stage", "-z")) as indexed:
        indexed("add", "--all")
        if any(entry.startswith(b"160000 ") for entry in indexed.raw("ls-files", "--stage", "-z").split(b"\0")):
            raise CannotSave("there is a repository inside it, whose files a branch cannot hold")
        tree = indexed("write-tree")
    parents = [found.commit, *git("for-each-ref", "--format=%(objectname)", "refs/heads").split()]
    with contextlib.suppress(GitError):  # in the middle of a merge, whose two sides are commits already
        staged = git("write-tree")
        if staged not in (tree, git("rev-parse", "HEAD^{tree}")):
            staged = _with_mains_pages(git, staged, [found.commit])
            message = "rescue: what was staged and not in the work tree"
            parents.append(commit_tree(git, staged, (found.commit,), message))
    tree = _with_mains_pages(git, tree, parents)
    commit = commit_tree(git, tree, tuple(dict.fromkeys(parents)), "rescue: what the clone of main held, not pushed")
    name = f"{RESCUE}{stamp(name_at)}"
    try:
        work = _in_words(git, found.commit, commit)
    except GitError as error:  # of a damaged history, of which all that can be is saved
        work = f"what it holds cannot be listed: {error}"
    _push(git, f"{commit}:refs/heads/{name}")
    return f"{name} ({work})"


def _push(git: Git, refspec: str) -> None:
    """Once the git door, which may have been started with us, is there. Raises GitError."""
    until = time.monotonic() + DOOR_SECONDS
    while True:
        try:
            git("push", "--quiet", "origin", refspec)
            return
        except GitError as error:
            if hook.AGAIN not in error.stderr or time.monotonic() > until:
                raise
        time.sleep(0.1)


def _in_words(git: Git, head: str, saved: str) -> str:
    """What origin did not have: files that were not committed, and commits. Names are the agent's."""
    changed = git.raw("diff", "--name-only", "--no-renames", "-z", head, saved).decode(errors="replace")
    files = [name for name in changed.split("\0") if name and name not in PAGES]
    form = ("log", f"--max-count={MOST_COUNTED}", "--format=%h %s")
    commits = git(*form, f"{saved}^@", "--not", "--remotes=origin").splitlines()
    parts = [
        f"{counted(len(found), what)} that {was} not {done}: {_named(found)}"
        for found, what, done in ((files, "file", "committed"), (commits, "commit", "pushed"))
        for was in ["was" if len(found) == 1 else "were"]
        if found
    ]
    return "; ".join(parts) or "no file and no commit that origin lacks"


def _named(found: list[str]) -> str:
    shown = [cut(plain(name).replace("\n", " "), NAME_CHARS) for name in found[:MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else "")


def _with_mains_pages(git: Git, tree: str, parents: list[str]) -> str:
    """The tree with the pages that the git door demands of a commit with these parents. Raises CannotSave."""
    main = resolve_commit(git, f"refs/remotes/origin/{MAIN}")
    try:
        anchor = anchor_of(git, main, *parents) if main else ""
    except PagesDiffer as error:
        raise CannotSave(str(error)) from None
    return tree_with_entries(git, tree, {page: file_at(git, anchor, page) if anchor else None for page in PAGES})


def stamp(now_wall: float) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_wall)) + f"{int(now_wall * 1000) % 1000:03d}Z"
