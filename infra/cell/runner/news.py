"""Whether the PM has changed main. The agent's and the keep's own commits, such as reports, are no news to a directive
that waits: a runner that took them for news would ask the model again after each report of its own, for ever."""

from __future__ import annotations

from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.git import Git, GitError

LOOKED_BACK = 1000
_OURS = (AGENT.email, WATCHER.email)


def from_the_pm(git: Git, before: str, now: str) -> bool:
    """Whether main at `now` has a commit that it had not at `before` and that neither agent nor keep has committed."""
    if before == now:
        return False
    try:
        emails = git("log", f"--max-count={LOOKED_BACK}", "--format=%ce", now, f"^{before}", "--").splitlines()
    except GitError:  # what main held before is gone: only the PM can do that
        return True
    return not emails or any(email.lower() not in _OURS for email in emails)
