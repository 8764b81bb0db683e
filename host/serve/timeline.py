"""The versions of main and the branches beside it, in the order of time: how each came, what the keep said, how it
started and fell, and what was paid while it was main."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from host.repository import main_commit, open_repository
from host.running import known_state
from host.serve.agents import Agent
from infra.keep.verdicts.refs import VERDICTS
from infra.keep.verdicts.verdict import Verdict
from infra.keep.watcher_file import BootRecord, Outcome, State
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.paths import PAGES
from infra.shared.repository.git import Git

SHOWN = 60
"""Versions of main."""


class Version(NamedTuple):
    """A commit of main that changes more than the pages."""

    commit: str
    at: str
    subject: str
    author: str
    verdict: str
    """What the keep said of it before it was main; empty when it was not asked."""
    starts: tuple[BootRecord, ...]
    usd: float
    """Paid from then until the next version."""

    @property
    def fell(self) -> bool:
        return any(each.outcome in (Outcome.FAILED, Outcome.DIED) for each in self.starts)


def timeline(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        versions, git = timeline_of(agent), open_repository(agent.home)
        commits = [version.commit for version in versions]
        tips = [{**each, "base": _base(git, commits, each["commit"])} for each in agent.status().awaiting_review or ()]
        return {"versions": versions, "tips": tips}

    return agent.known("timeline", ("repository", "watcher", "money"), read)


def timeline_of(agent: Agent) -> list[Version]:
    """The last versions of main, oldest first. For what `Agent.known` reads alone. Raises GitError."""
    git, state, paid = open_repository(agent.home), known_state(agent.home) or State(), agent.money().between
    but = [f":(exclude){page}" for page in PAGES]
    words = ("log", "--first-parent", f"--max-count={SHOWN}", "--format=%H%x00%ct%x00%an%x00%s%x00%P%x00")
    fields = git(*words, main_commit(git), "--", ".", *but).split("\0")
    rows = [fields[place : place + 5] for place in range(0, len(fields) - 4, 5)][::-1]
    times = [timestamp(float(at or 0)) for _, at, _, _, _ in rows] + ["9999"]
    verdicts = _verdicts(git)
    found = []
    for place, (sha, _, author, subject, parents) in enumerate(rows):
        commit, at, until = sha.strip(), times[place], times[place + 1]
        verdict = next((verdicts[each] for each in (commit, *parents.split()[1:]) if each in verdicts), "")
        starts = tuple(boot for boot in state.boots if boot.commit == commit)
        found.append(Version(commit, at, subject, author, verdict, starts, paid(at, until)))
    return found


def _verdicts(git: Git) -> dict[str, str]:
    """In words, by the commit of the branch that was examined."""
    names = git("for-each-ref", "--format=%(objectname)", VERDICTS).split()
    found = git("cat-file", "--batch=%(objectsize)", "--buffer", stdin="\n".join(names).encode()) if names else ""
    said = {}
    for line in found.splitlines():
        try:
            verdict = msgspec.json.decode(line, type=Verdict)
        except (msgspec.MsgspecError, ValueError):
            continue
        said[verdict.commit] = f"{'passed' if verdict.passed else 'not passed'}: {verdict.words}"
    return said


def _base(git: Git, versions: list[str], commit: str) -> int:
    """The place of the version that a branch began at; -1 when it is older. Raises GitError."""
    if not git.ok("merge-base", MAIN, commit):
        return -1
    # The base may be a commit of a page alone: then it began at the version before it.
    history = git("rev-list", "--first-parent", "--max-count=200", git("merge-base", MAIN, commit)).split()
    return next((versions.index(each) for each in history if each in versions), -1)
