"""Which refs the agent may push to, by their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from infra.keep.folding import folded
from infra.keep.git_door.push import HEADS, TAGS
from infra.keep.mind.snapshot_tags import OF_THE_KEEP
from infra.keep.protection import protecting
from infra.shared.branches import MAIN, MAX_PARTS, MIND, RESCUE, problem_with_branch
from infra.shared.text import cut

MIND_REF = HEADS + MIND
SNAPSHOTS = f"{TAGS}snapshot/"
_SNAPSHOT = re.compile(rf"{SNAPSHOTS}[A-Za-z0-9][A-Za-z0-9._+/-]{{0,199}}")
_CLOSED = {
    "HEAD": "which branch is the first is the PM's to say; push a branch by its name",
    "refs/minifram/": "these refs are the keep's own records; push a branch instead",
    "refs/replace/": "a replaced object would show the PM another history than there is; make a new commit instead",
    "refs/notes/": "notes are not taken; write it into the commit's message, a file, or a report in COMMS.md",
}


def problem_with_name(ref: str, protected: Iterable[str]) -> str | None:
    """Why nothing is pushed to this ref."""
    if ref.startswith(HEADS):
        return _problem_with_branch(ref.removeprefix(HEADS), protected)
    if ref.startswith(TAGS):
        kind = ref.removeprefix(SNAPSHOTS).split("/")[0]
        if ref.startswith(SNAPSHOTS) and folded(kind) in OF_THE_KEEP:
            return f"snapshots named {shown(kind)} are of the mind, and the keep alone makes them; name yours otherwise"
        if _SNAPSHOT.fullmatch(ref) and ref.count("/") < SNAPSHOTS.count("/") + MAX_PARTS:
            return None
        return "the only tags are snapshots: push it as refs/tags/snapshot/<name>, letters, digits and . _ + / -"
    for prefix, words in _CLOSED.items():
        if ref == prefix or (prefix.endswith("/") and ref.startswith(prefix)):
            return words
    return "only branches (refs/heads/<name>) and snapshot tags (refs/tags/snapshot/<name>) are taken; push a branch"


def _problem_with_branch(branch: str, protected: Iterable[str]) -> str | None:
    rescue = RESCUE.rstrip("/")
    if branch == rescue:
        return f"this name would stand in the way of the {RESCUE}… branches; choose another one"
    problem = None if branch == MIND else problem_with_branch(branch)
    if problem:
        return problem
    first = branch.split("/")[0]
    for taken in (MAIN, MIND, rescue):
        # Not every file system tells capital letters from small ones, and a ref is a file.
        if first.casefold() == taken and (first != taken or (taken != rescue and branch != taken)):
            return f"this name is too much like {taken!r}, or stands in its way; choose another one"
    pattern = protecting(protected, branch)
    if pattern:
        return f"this branch is the PM's (protected.branches has {shown(pattern)}); push one of another name"
    return None


def shown(name: str) -> str:
    return repr(cut(name, 200))
