"""The refs of examinations, in the shared repository and hidden from the cell: requests
(`refs/minifram/examine/<branch>`, a commit) and verdicts (`refs/minifram/verdict/<key>`, JSON).

The git door's hook reads them too, and starts without site-packages: here is only the standard library."""

from __future__ import annotations

import contextlib
import json
import os
from typing import NamedTuple

from infra.shared.branches import problem_with_branch
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git

REQUESTS = "refs/minifram/examine/"
VERDICTS = "refs/minifram/verdict/"
VERDICT_BYTES = 256 * 1024
MOST_WAITING = 5
"""Requests that the agent may have waiting: the PM's come after them, one examination after the other."""


class VerdictStatus(NamedTuple):
    """What a verdict says about moving main."""

    passed: bool
    why: str
    """Why not, when it has not passed."""
    needs_word: tuple[str, ...]
    main: str
    """The commit of main that it was held against."""


def ask(git: Git, branch: str, commit: str) -> None:
    """Ask the watcher for an examination. Raises GitError, OSError."""
    ref = f"{REQUESTS}{branch}"
    with contextlib.suppress(OSError), open(f"{git.directory}/{ref}", "rb") as file:
        if file.read(41) == f"{commit}\n".encode():
            return
    # The watcher looks for the ref's own file: a packed one is taken away first.
    update_refs(git, f"delete {ref}")
    update_refs(git, f"update {ref} {commit}")


def forget_request(git: Git, branch: str, commit: str) -> None:
    """Unless it was asked for another commit meanwhile. Raises GitError."""
    ref = f"{REQUESTS}{branch}"
    if git("for-each-ref", "--format=%(objectname)", ref) == commit:
        update_refs(git, f"delete {ref} {commit}")


def is_asked(remote: str) -> bool:
    """Whether there may be a request: cheap enough for every look."""
    pending = [f"{remote}/{REQUESTS}"]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        return True
                    pending.append(entry.path)
        except OSError:
            continue
    return False


def requests(git: Git) -> list[tuple[str, str]]:
    """Branch and commit of what is asked for, what waits longest first. Raises GitError."""
    listed = git("for-each-ref", "--format=%(objectname) %(refname)", REQUESTS).split("\n")
    pairs = [(line[41:].removeprefix(REQUESTS), line[:40]) for line in listed if line]
    found = [(branch, commit) for branch, commit in pairs if not problem_with_branch(branch)]
    return sorted(found, key=lambda pair: _asked_at(git, pair[0]))


def has_room(git: Git, branch: str) -> bool:
    """Whether the agent may ask for this one now. Raises GitError."""
    waiting = {each for each, _ in requests(git)}
    return branch in waiting or len(waiting) < MOST_WAITING


def _asked_at(git: Git, branch: str) -> float:
    try:
        return os.stat(f"{git.directory}/{REQUESTS}{branch}").st_mtime
    except OSError:
        return 0.0


def read_verdict(git: Git, key: str) -> bytes | None:
    """The verdict on the tree of this key, as JSON. Raises GitError."""
    listed = git("for-each-ref", "--format=%(objectname) %(objecttype) %(objectsize)", f"{VERDICTS}{key}").split()
    if len(listed) != 3 or listed[1] != "blob" or int(listed[2]) > VERDICT_BYTES:
        return None
    return git.raw("cat-file", "blob", listed[0])


def status_of(git: Git, key: str) -> VerdictStatus | None:
    """Raises GitError; a verdict that cannot be read is none."""
    content = read_verdict(git, key)
    try:
        found = json.loads(content) if content else None
    except (ValueError, RecursionError):
        return None
    match found:
        case {"key": found_key, "passed": bool(passed), "why": str(why), "needs_word": list(words), "main": str(main)}:
            return VerdictStatus(passed, why, tuple(map(str, words)), main) if found_key == key else None
    return None
