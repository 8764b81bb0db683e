"""What may land on the branch `mind`, beside what holds for every branch. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from infra.keep.folding import folded
from infra.keep.git_door.entries import shown
from infra.keep.taint import Taint, refusal_on_mind, words
from infra.shared.branches import MIND
from infra.shared.mind.layout import (
    INBOX,
    MOST_FILE_BYTES,
    MOST_FILES,
    NOT_COMMITTED,
    OPEN_QUESTIONS,
    PM_ONLY,
    is_below,
)
from infra.shared.mind.loss import AT_MOST, MindLoss

MIND_REF = f"refs/heads/{MIND}"


class MindChange(NamedTuple):
    """What a push does to the mind; of another branch, whether it takes its history from there."""

    files: int = 0
    """That it would hold."""
    large: tuple[str, int] | None = None
    """A changed file over the limit, and its bytes."""
    losses: tuple[MindLoss, ...] = ()
    since: str = ""
    """The snapshot with which they were counted; empty for none."""
    inbox: str = ""
    """What it does to the tasks beside taking them out (`mind.inbox_edits`)."""
    new_question: str = ""
    """Id of an open question that was not asked before, or not in these words; empty for none."""
    foreign: str = ""
    """A commit that has its history in common with the other side: main's, for the mind; the mind's, for others."""
    noted: tuple[str, ...] = ()
    """Changed files of the memory that rest on notes of runs which had read no page (`notes`)."""


def problem_with_mind(
    ref: str, changed: Iterable[str], present: Iterable[str], change: MindChange, taint: Taint | None
) -> str | None:
    """`present`: the changed files that would be there."""
    if ref != MIND_REF:
        if not change.foreign:
            return None
        return (
            f"commit {change.foreign[:12]} has its history from the branch {MIND!r}, which is pushed to {MIND} alone; "
            "make the commit on a branch that began at main"
        )
    if change.foreign:
        return (
            f"commit {change.foreign[:12]} has a beginning of its own, and the history of {MIND} has one; "
            f"commit on top of origin/{MIND} (git rebase --onto origin/{MIND})"
        )
    for path in changed:
        if is_below(_folded(path), PM_ONLY):
            return (
                f"{shown(path)} is the PM's alone; put it back (git checkout origin/{MIND} -- PATH, or git rm for a "
                "new one), and propose the change in reflection/improvements.md"
            )
    for path in present:
        if is_below(_folded(path), NOT_COMMITTED):
            return (
                f"{shown(path)} is never committed: it lives in the clone and in backups; take it out (git rm "
                "--cached), and leave .gitignore as it is"
            )
    return (
        _problem_with_size(change)
        or _problem_with_losses(change)
        or _problem_with_orders(change, taint)
        or refusal_on_mind(taint, [path for path in changed if path not in change.noted])
    )


def _problem_with_orders(change: MindChange, taint: Taint | None) -> str | None:
    """What makes a later run begin: a task is the PM's word, and a question must not be a page's."""
    if change.inbox:
        return f"{change.inbox}; put the file back (git checkout origin/{MIND} -- {INBOX})"
    if change.new_question and taint:
        return (
            f"{OPEN_QUESTIONS} asks {change.new_question} anew, which later work would follow, and {words(taint)}; "
            f"put it back (git checkout origin/{MIND} -- {OPEN_QUESTIONS}), and ask in your report"
        )
    return None


def _problem_with_size(change: MindChange) -> str | None:
    if change.large:
        path, size = change.large
        return (
            f"{shown(path)} has {size:,} bytes, and a file of the mind has at most {MOST_FILE_BYTES:,}; shorten it, or "
            "move older sections to memory/archive/"
        )
    if change.files > MOST_FILES:
        return f"the mind would hold {change.files:,} files, over the limit of {MOST_FILES:,}; join or remove some"
    return None


def _problem_with_losses(change: MindChange) -> str | None:
    if not change.losses:
        return None
    what = " and ".join(f"{words} in {path}" for path, words in change.losses)
    since = f"since snapshot/{change.since}, with what went before," if change.since else "at once,"
    return (
        f"{what} would be gone {since} and {AT_MOST}; put them back (git checkout origin/{MIND} -- PATH), mark what is "
        "wrong as deprecated, or ask the PM to take it out"
    )


def _folded(path: str) -> str:
    return "/".join(map(folded, path.split("/")))
