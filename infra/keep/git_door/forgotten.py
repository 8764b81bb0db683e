"""Commits that the PM had forgotten do not come back: a clone that was not made anew may still hold them, and a merge
would bring them in without dropping a commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from infra.shared.mind.forgotten import read_forgotten

if TYPE_CHECKING:
    from infra.keep.git_door.decide import Update


def problems_with_forgotten(var: str, updates: Sequence[Update]) -> Iterable[tuple[str, str | None]]:
    """Of each update. Raises OSError, ValueError."""
    gone = read_forgotten(var)
    for update in updates:
        back = [commit.id for commit in update.new_commits if commit.id in gone] if gone else []
        if update.new in gone:
            back.append(str(update.new))
        yield update.ref, _words(back[0]) if back else None


def _words(commit: str) -> str:
    return (
        f"commit {commit[:12]} is of the mind as it was before the PM had something of it forgotten, and does not come "
        "back; take a fresh clone of the branch mind, and bring over only what you have to say yourself"
    )
