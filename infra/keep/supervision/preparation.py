"""What comes before a launch, in a process of its own as the cell: the version's environment is installed, and a branch
is rehearsed. The watcher goes on meanwhile; a sweep ends this like everything else of the cell's.

What is fit is remembered by branch and commit, so that a launch that was put off is not rehearsed again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from infra.keep.environments import request, result
from infra.keep.rehearsal import verdict
from infra.keep.services.children import KEEPS_GIT, Child
from infra.keep.supervision.decide.events import Launch, Preparing
from infra.shared.active import Runner
from infra.shared.boot_files import retire
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.programs import keep_command, keep_environment
from infra.shared.safe_files import Below

SCRATCH_CHARS = 84
"""The longest path of a scratch directory: sockets lie below it (unix(7))."""
OUTPUT_BYTES = 256 * 1024
_SCRATCH = ".rehearsal-"
GRACE_SECONDS = 30.0
"""Over the time that a step may take by its own clock."""


class Step(NamedTuple):
    """One thing to be done, and how its outcome is read."""

    what: str
    command: list[str]
    env: dict[str, str]
    seconds: float
    outcome: Callable[[bytes, int], tuple[str, bool, str]]
    """stdout and exit status -> why not (empty: done), whether the version is to blame, and a transcript."""


class _Underway(NamedTuple):
    step: Step
    launch: Launch
    runner: Runner
    """The version that it is about."""
    child: Child
    began: float


class Prepared(NamedTuple):
    """A step is over."""

    launch: Launch
    why_not: str = ""
    """Empty: the launch can go on."""
    guilty: Runner | None = None
    """The version that is at fault, if one is."""
    transcript: str = ""


class Preparation:
    """Steps before the launches of one agent, one at a time."""

    def __init__(self, places: Paths, cell: Identity, log: structlog.stdlib.BoundLogger) -> None:
        self._places = places
        self._cell = cell
        self._log = log
        self._underway: _Underway | None = None
        self._fit: set[tuple[str, str]] = set()

    def is_fit(self, branch: str, commit: str) -> bool:
        return (branch, commit) in self._fit

    def installing(self, checkout: str, seconds: float) -> Step:
        places = self._places
        asked = request.InstallRequest(places.bot, checkout, places.environments, places.wheels, seconds)
        words = keep_command("infra.keep.environments.install", *request.to_words(asked))
        env = keep_environment() | {"HOME": "/nonexistent"}
        return Step("its environment is installed", words, env, seconds + GRACE_SECONDS, _installed)

    def rehearsing(self, checkout: str, branch: str, commit: str, python: str, seconds: float) -> Step:
        """Raises OSError when there is no place for it."""
        words = verdict.command(checkout, branch, commit, self._scratch(), python, seconds)
        return Step("it is rehearsed", words, verdict.environment(), verdict.longest_seconds(seconds), _rehearsed)

    def begin(self, step: Step, launch: Launch, runner: Runner) -> Preparing:
        """Raises OSError."""
        self.cancel()
        # The next watcher knows it by this and ends it, should this one be killed.
        env = step.env | {KEEPS_GIT: self._places.var}
        child = Child(step.command, env, OUTPUT_BYTES, self._cell)
        self._underway = _Underway(step, launch, runner, child, time.monotonic())
        self._log.info("preparation.began", what=step.what, branch=runner.branch, commit=runner.commit, pid=child.pid)
        return Preparing(launch.branch, step.seconds)

    def pids(self) -> frozenset[int]:
        return frozenset({self._underway.child.pid} if self._underway else ())

    def pidfds(self) -> list[int]:
        return [self._underway.child.pidfd] if self._underway else []

    def look(self) -> Prepared | None:
        """The outcome, once; never waits."""
        if self._underway is None or not self._underway.child.is_over():
            return None
        step, launch, runner, child, began = self._underway
        why, guilty, transcript = step.outcome(child.said(), child.end())
        child.forget()
        self._underway = None
        seconds = round(time.monotonic() - began, 3)
        facts = {"what": step.what, "branch": runner.branch, "commit": runner.commit, "why_not": why}
        self._log.info("preparation.ended", **facts, seconds=seconds)
        if not why:
            if step.outcome is _rehearsed:
                self._fit.add((runner.branch, runner.commit))
            return Prepared(launch)
        named = f"{runner.branch}@{runner.commit[:12]} was not launched: {why}"
        return Prepared(launch, named, runner if guilty else None, transcript)

    def cancel(self) -> Launch | None:
        """End the step; gives the launch that it was for."""
        underway, self._underway = self._underway, None
        if underway is None:
            return None
        underway.child.end()
        underway.child.forget()
        return underway.launch

    def _scratch(self) -> str:
        """A fresh directory of the cell's, on a disk if its path can be short enough there. Raises OSError."""
        retire(Below(self._places.bot, self._cell), _SCRATCH)
        places = (self._places.bot, tempfile.gettempdir())
        where = next((path for path in places if len(path) + len(_SCRATCH) + 10 <= SCRATCH_CHARS), places[1])
        with self._cell.acting():
            return tempfile.mkdtemp(prefix=_SCRATCH, dir=where)


def _installed(said: bytes, status: int) -> tuple[str, bool, str]:
    found = result.read_result(said, status)
    if isinstance(found, result.Installed):
        return "", False, ""
    return f"its requirements could not be installed: {found.error}", not found.outage, found.words


def _rehearsed(said: bytes, status: int) -> tuple[str, bool, str]:
    found = verdict.read_verdict(said, status)
    if found.fit:
        return "", False, ""
    if found.fit is None:
        return f"it could not be rehearsed, which does not count against it; signal again: {found.why}", False, ""
    return f"it failed its rehearsal: {found.why}", True, found.transcript
