"""The PM asks the keep for an examination, by a ref that the watcher reads, and waits for the verdict."""

from __future__ import annotations

import time
from typing import NamedTuple

from host.paths import AgentPaths
from host.repository import review
from host.running import record
from infra.shared.repository.git import Git
from infra.shared.verdicts import refs
from infra.shared.verdicts.verdict import Verdict

LONGEST_SECONDS = 1800.0
POLL_SECONDS = 0.5


class Examined(NamedTuple):
    branch: str
    commit: str
    running: bool
    """Whether there is a watcher that can examine."""
    status: str = ""
    """As in `review`; empty when there is no new verdict yet."""
    verdict: Verdict | None = None


def examine_branch(home: AgentPaths, git: Git, name: str, seconds: float) -> Examined:
    """Ask, and wait until the request is taken away, as long as a watcher runs. Raises CommandError, GitError."""
    commit, main = review.branch_commit(git, name), review.main_commit(git)
    asked_at = time.time()
    refs.ask(git, name, commit)
    deadline = time.monotonic() + seconds
    is_running = record.is_running(home)
    while is_running and time.monotonic() < deadline:
        if (name, commit) not in refs.requests(git):
            found = review.examination(git, main, commit)
            is_new = found.verdict is not None and found.verdict.at >= asked_at
            if is_new or found.status == review.CONFLICT:
                return Examined(name, commit, True, found.status, found.verdict)
            if commit != review.branch_commit(git, name) or main != review.main_commit(git):
                return Examined(name, commit, True, review.NOT_EXAMINED)
        time.sleep(POLL_SECONDS)
        is_running = record.is_running(home)
    return Examined(name, commit, is_running)
