"""The refs of examinations, in the shared repository and hidden from the cell: requests
(`refs/minifram/examine/<branch>`, a commit) and verdicts (`refs/minifram/verdict/<key>`, JSON)."""

from __future__ import annotations

import contextlib
import os

import msgspec

from infra.keep.repository.bare_tip import update_refs
from infra.keep.verdicts import trees
from infra.keep.verdicts.verdict import Verdict
from infra.shared.branches import problem_with_branch
from infra.shared.repository.git import Git

REQUESTS = "refs/minifram/examine/"
VERDICTS = "refs/minifram/verdict/"
VERDICT_BYTES = 1 << 20
"""More than any that was judged."""
MOST_WAITING = 5
"""Requests that the agent may have waiting: the PM's come after them, one examination after the other."""
MOST_KEPT = 500
"""Verdicts; of more the oldest go."""


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
    return any(files for _, _, files in os.walk(f"{remote}/{REQUESTS}"))


def requests(git: Git) -> list[tuple[str, str]]:
    """Branch and commit of what is asked for, what waits longest first. Raises GitError."""
    listed = git("for-each-ref", "--format=%(objectname) %(refname)", REQUESTS).split("\n")
    pairs = [(line[41:].removeprefix(REQUESTS), line[:40]) for line in listed if line]
    found = [(branch, commit) for branch, commit in pairs if not problem_with_branch(branch)]

    def asked_at(pair: tuple[str, str]) -> float:
        with contextlib.suppress(OSError):
            return os.stat(f"{git.directory}/{REQUESTS}{pair[0]}").st_mtime
        return 0.0

    return sorted(found, key=asked_at)


def has_room(git: Git, branch: str) -> bool:
    """Whether the agent may ask for this one now. Raises GitError."""
    waiting = {each for each, _ in requests(git)}
    return branch in waiting or len(waiting) < MOST_WAITING


def find(git: Git, key: str) -> Verdict | None:
    """The verdict on what has this key (`trees.key_of`). Raises GitError; one that cannot be read is none."""
    listed = git("for-each-ref", "--format=%(objectname) %(objecttype) %(objectsize)", f"{VERDICTS}{key}").split()
    if len(listed) != 3 or listed[1] != "blob" or int(listed[2]) > VERDICT_BYTES:
        return None
    try:
        found = msgspec.json.decode(git.raw("cat-file", "blob", listed[0]), type=Verdict)
    except ValueError:
        return None
    return found if found.key == key else None


def verdict_on(git: Git, main: str, branch: str, commit: str, merged: str) -> Verdict | None:
    """On `merged`, which merging this commit of the branch would make of main now. Raises GitError."""
    if trees.are_alike(git, main, merged):
        return Verdict("", branch, commit, main, passed=True)
    found = find(git, trees.key_of(git, merged))
    return found if found and trees.are_alike(git, found.main, main) else None


def keep(git: Git, verdict: Verdict) -> None:
    """Raises GitError."""
    blob = git("hash-object", "-w", "--stdin", stdin=msgspec.json.encode(verdict))
    update_refs(git, f"update {VERDICTS}{verdict.key} {blob}")
    refs = git("for-each-ref", "--format=%(refname)", VERDICTS).split()
    if len(refs) > MOST_KEPT:
        made = {ref: found.at for ref in refs if (found := find(git, ref.removeprefix(VERDICTS)))}
        oldest = sorted(refs, key=lambda ref: made.get(ref, 0.0))[: len(refs) - MOST_KEPT]
        update_refs(git, *(f"delete {ref}" for ref in oldest))
