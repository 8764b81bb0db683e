"""Which refs the agent may push to, by their names. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from infra.keep.git_door.push import HEADS
from infra.keep.protection import protecting
from infra.shared.branches import MAIN, MIND, problem_with_branch
from infra.shared.text import cut

MIND_REF = HEADS + MIND


def problem_with_name(ref: str, protected: Iterable[str]) -> str | None:
    """Why nothing is pushed to this ref."""
    if not ref.startswith(HEADS):
        return "only branches (refs/heads/<name>) are taken; push a branch"
    branch = ref.removeprefix(HEADS)
    if branch in (MAIN, MIND):
        return None
    if problem := problem_with_branch(branch):
        return problem
    # Not every file system tells capital letters from small ones, and a ref is a file.
    first = branch.split("/")[0].casefold()
    if first in (MAIN, MIND):
        return f"this name is too much like {first!r}, or stands in its way; choose another one"
    pattern = protecting(protected, branch)
    if pattern:
        return f"this branch is the PM's (protected.branches has {shown(pattern)}); push one of another name"
    return None


def shown(name: str) -> str:
    return repr(cut(name, 200))
