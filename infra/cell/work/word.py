"""Whether the PM has spoken: by a commit on main."""

from __future__ import annotations

from infra.shared.people import LOOKED_BACK, is_the_pms
from infra.shared.repository.git import Git, GitError


def pm_has_moved(git: Git, before: str, now: str) -> bool:
    """Whether main at `now` has a commit of the PM's that it had not at `before`.

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
