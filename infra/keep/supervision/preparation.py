"""Prepares a launch in a separate process that runs as the cell: installs the environment of the version, and rehearses
a branch. The watcher does not wait for it; a sweep ends it like every process of the cell.

Passed rehearsals are remembered by branch and commit, so that a postponed launch is not rehearsed again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import structlog

from infra.keep.active import Runner
from infra.keep.environments import request, result
from infra.keep.programs import keep_command, keep_environment
from infra.keep.rehearsal import verdict
from infra.keep.services.children import KEEPS_GIT, Child
from infra.keep.supervision.decide.events import Launch, Preparing
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_and_cut

SCRATCH_CHARS = 84
"""The longest path of a scratch directory: sockets lie below it (unix(7))."""
OUTPUT_BYTES = 256 * 1024
_SCRATCH = ".rehearsal-"
REMOVE_SECONDS = 3.0
"""For the directory of one rehearsal, and for all leftovers together: the watcher waits for it."""
MOST_LOOKED_AT = 10_000
NOTHING: Mapping[str, str] = MappingProxyType({})
GRACE_SECONDS = 30.0
"""Added to the time limit that a step enforces itself."""


class Step(NamedTuple):
    """One preparation, and how to read its outcome."""

    what: str
    command: list[str]
    env: dict[str, str]
    seconds: float
    outcome: Callable[[bytes, int], tuple[str, bool, str]]
    """stdout and exit status -> why not (empty: done), whether the version is to blame, and a transcript."""
    scratch: str = ""
    """The directory that it writes to; removed when it is over."""


class _Underway(NamedTuple):
    step: Step
    launch: Launch
    runner: Runner
    """The version being prepared."""
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
    commit: str = ""


class Preparation:
    """Preparations of one agent, one at a time."""

    def __init__(
        self, places: Paths, cell: Identity, log: structlog.stdlib.BoundLogger, also: Mapping[str, str] = NOTHING
    ) -> None:
        """`also` is in the environment of what installs."""
        self._places = places
        self._cell = cell
        self._also = also
        self._log = log
        self._underway: _Underway | None = None
        self._fit: set[tuple[str, str]] = set()
        # On a disk, if the path is short enough there; else in a place that all agents share, with a name of our own.
        self._scratches, self._prefix = places.bot, _SCRATCH
        if len(places.bot) + len(_SCRATCH) + 10 > SCRATCH_CHARS:
            self._scratches = tempfile.gettempdir()
            self._prefix = f"{_SCRATCH}{hashlib.sha256(os.fsencode(places.bot)).hexdigest()[:12]}-"

    def is_fit(self, branch: str, commit: str) -> bool:
        return (branch, commit) in self._fit

    def installing(self, checkout: str, seconds: float) -> Step:
        places = self._places
        asked = request.InstallRequest(places.bot, checkout, places.environments, places.wheels, seconds)
        words = keep_command("infra.keep.environments.install", *request.to_words(asked))
        env = keep_environment() | {"HOME": "/nonexistent", **self._also}
        return Step("its environment is installed", words, env, seconds + GRACE_SECONDS, _installed)

    def rehearsing(self, checkout: str, branch: str, commit: str, python: str, seconds: float) -> Step:
        """Raises OSError when there is no place for it."""
        scratch, longest = self._scratch(), verdict.longest_seconds(seconds)
        words = verdict.command(checkout, branch, commit, scratch, python, seconds)
        return Step("it is rehearsed", words, verdict.environment(), longest, _rehearsed, scratch)

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
        self._remove(step.scratch)
        seconds = round(time.monotonic() - began, 3)
        facts = {"what": step.what, "branch": runner.branch, "commit": runner.commit, "why_not": why}
        self._log.info("preparation.ended", **facts, seconds=seconds)
        if not why:
            if step.outcome is _rehearsed:
                self._fit.add((runner.branch, runner.commit))
            return Prepared(launch)
        named = f"{runner.branch}@{runner.commit[:12]} was not launched: {why}"
        return Prepared(launch, named, runner if guilty else None, transcript, runner.commit)

    def cancel(self) -> Launch | None:
        """End the step; gives the launch that it was for."""
        underway, self._underway = self._underway, None
        if underway is None:
            return None
        underway.child.end()
        underway.child.forget()
        self._remove(underway.step.scratch)
        return underway.launch

    def remove_leftovers(self, seconds: float = REMOVE_SECONDS) -> None:
        """Of rehearsals whose watcher was killed. Their processes must have ended. The cell can make such directories
        too, as many as it likes, and the doors start after this: what there is no time for is left to the next start.
        """
        until = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            for name in Below(self._scratches, self._cell).names("", MOST_LOOKED_AT):
                left = until - time.monotonic()
                if left <= 0:
                    self._log.warning("rehearsal.not_removed", path=self._scratches, reason="there are too many")
                    return
                if name.startswith(self._prefix):
                    self._remove(f"{self._scratches}/{name}", left)

    def _scratch(self) -> str:
        """A fresh directory of the cell's. Raises OSError."""
        with self._cell.acting():
            return tempfile.mkdtemp(prefix=self._prefix, dir=self._scratches)

    def _remove(self, scratch: str, seconds: float = REMOVE_SECONDS) -> None:
        if not scratch:
            return
        where, name = os.path.split(scratch)
        try:
            Below(where, self._cell).remove(name, seconds)
        except OSError as error:
            self._log.warning("rehearsal.not_removed", path=scratch, reason=redacted_and_cut(str(error), 300))


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
