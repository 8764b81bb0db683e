"""Trying again what fails for a moment: a door that restarts, a lock that somebody holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from infra.shared.repository.git import GitError

T = TypeVar("T")

PAUSES_SECONDS = (0.2, 0.6, 1.5)


def refused(error: GitError) -> bool:
    """Whether the git door said no. It will say no again, so there is nothing to wait for, unless it says that it is
    being started again (`git_door.hook`)."""
    return error.is_refusal and "push again in a moment" not in error.stderr


def words_of(error: GitError) -> str:
    """What the door said, without git's marks around it."""
    lines = error.stderr.splitlines()
    said = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    rest = [line for line in lines if not line.startswith("hint:")]
    return "\n".join(line for line in said if line) or "\n".join(rest).strip()


def retried(action: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """`action()`, tried again after short growing pauses. Raises its last GitError, a refusal at once."""
    for seconds in PAUSES_SECONDS:
        try:
            return action()
        except GitError as error:
            if refused(error):
                raise
        pause(seconds)
    return action()
