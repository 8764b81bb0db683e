"""The PM's word: a commit on main that neither the agent nor the keep has committed."""

from __future__ import annotations

from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.git import Git, GitError

LOOKED_BACK = 1000
"""Commits on main that are searched for one of the PM's."""


def is_the_pms(email: str) -> bool:
    """By its committer."""
    return email.strip().lower() not in (AGENT.email, WATCHER.email)


def last_word(git: Git, main: str) -> str:
    """The newest one; empty when it is too far back. Raises GitError."""
    lines = git("log", f"--max-count={LOOKED_BACK}", "--encoding=UTF-8", "--format=%H %ce", main, "--").splitlines()
    return next((commit for commit, _, email in (line.partition(" ") for line in lines) if is_the_pms(email)), "")


def pm_has_moved(git: Git, before: str, now: str) -> bool:
    """Whether main at `now` has one that it had not at `before`.

    The agent's and the keep's own commits, such as reports, are no news: a runner that took them for news would ask
    the model again after each report of its own, without end."""
    if before == now:
        return False
    try:
        emails = git(
            "log", f"--max-count={LOOKED_BACK}", "--encoding=UTF-8", "--format=%ce", now, f"^{before}", "--"
        ).splitlines()
    except GitError:  # what main held before is gone: only the PM can do that
        return True
    return not emails or any(map(is_the_pms, emails))
