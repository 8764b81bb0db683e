"""The versions of main and the branches beside it, in the order of time: how each came, what the keep said, how it
started and fell, and what was paid while it was main. A list, and the same as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from host.repository import main_commit, open_repository
from host.running import known_state
from host.serve.agents import Agent
from host.serve.head import status_of
from infra.keep.verdicts.refs import VERDICTS
from infra.keep.verdicts.verdict import Verdict
from infra.keep.watcher_file import BootRecord, Outcome, State
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.paths import PAGES
from infra.shared.repository.git import Git

SHOWN = 60
"""Versions of main."""
STEP, HEIGHT = 26, 96
"""Pixels of the picture: between two versions, and in all."""


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


class Tip(NamedTuple):
    """A branch that awaits the PM."""

    name: str
    commit: str
    verdict: str
    base: int
    """The place of the version that it began at, among those shown; -1 when it is older."""


class Picture(NamedTuple):
    """Places in pixels, from the left."""

    width: int
    versions: tuple[tuple[int, Version], ...]
    tips: tuple[tuple[int, int, Tip], ...]
    """Where its branch begins and ends."""


def timeline(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        versions = timeline_of(agent)
        awaiting = status_of(agent).awaiting_review or ()
        tips = tips_of(open_repository(agent.home), [version.commit for version in versions], awaiting)
        return {"versions": versions[::-1], "tips": tips, "picture": picture(versions, tips), "height": HEIGHT}

    return agent.known("timeline", ("repository", "watcher", "money"), read)


def timeline_of(agent: Agent) -> list[Version]:
    """The oldest first."""
    paid = agent.money.read().between
    return versions_of(open_repository(agent.home), known_state(agent.home) or State(), paid)


def versions_of(git: Git, state: State, paid: Callable[[str, str], float]) -> list[Version]:
    """The last versions of main, oldest first. Raises GitError."""
    but = [f":(exclude){page}" for page in PAGES]
    words = ("log", "--first-parent", f"--max-count={SHOWN}", "--format=%H%x00%ct%x00%an%x00%s%x00", "-m")
    fields = git(*words, main_commit(git), "--", ".", *but).split("\0")
    rows = [fields[place : place + 4] for place in range(0, len(fields) - 3, 4)][::-1]
    times = [timestamp(float(at or 0)) for _, at, _, _ in rows] + ["9999"]
    verdicts = _verdicts(git)
    return [
        Version(
            commit := sha.strip(),
            times[place],
            subject,
            author,
            next((verdicts[each] for each in (commit, *_parents(git, commit)[1:]) if each in verdicts), ""),
            tuple(boot for boot in state.boots if boot.commit == commit),
            paid(times[place], times[place + 1]),
        )
        for place, (sha, _, author, subject) in enumerate(rows)
    ]


def _parents(git: Git, commit: str) -> list[str]:
    return git("rev-parse", f"{commit}^@").split()


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


def tips_of(git: Git, versions: Sequence[str], awaiting: Iterable[Mapping[str, str]]) -> list[Tip]:
    """Raises GitError."""
    found = []
    for each in awaiting:
        base = git("merge-base", MAIN, each["commit"]) if git.ok("merge-base", MAIN, each["commit"]) else ""
        # The base may be a commit of a page alone: then it began at the version before it.
        history = git("rev-list", "--first-parent", "--max-count=200", base).split() if base else []
        place = next((versions.index(commit) for commit in history if commit in versions), -1)
        found.append(Tip(each["name"], each["commit"], each["verdict"], place))
    return found


def picture(versions: Sequence[Version], tips: Sequence[Tip]) -> Picture:
    """Main from left to right; each branch leaves it where it began and ends at the right. Pure."""
    places = tuple((STEP * (place + 1), version) for place, version in enumerate(versions))
    width = STEP * (len(versions) + 2)
    beside = tuple((STEP * (tip.base + 1), width - STEP, tip) for tip in tips)
    return Picture(width, places, beside)
