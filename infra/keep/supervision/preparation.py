"""Prepares a launch in a separate process that runs as the cell: installs the environment of the version, and rehearses
a branch. The watcher does not wait for it; a sweep ends it like every process of the cell.

The last rehearsal that passed is remembered, so that a postponed launch is not rehearsed again."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import structlog

from infra.keep.programs import keep_command, keep_environment
from infra.keep.rehearsal import verdict
from infra.keep.services.children import KEEPS, Child, in_memory
from infra.keep.supervision.decide.events import Launch
from infra.keep.watcher_file import Runner
from infra.shared.exit_codes import Exit
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.text import cut, plain

SCRATCH_CHARS = 84
"""The longest path of the scratch directory: sockets lie below it (unix(7))."""
OUTPUT_BYTES = 256 * 1024
REMOVE_SECONDS = 3.0
"""The watcher waits for it."""
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
    """The directory that is made for it."""
    stdin: bytes = b""


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


class Preparation:
    """Preparations of one agent, one at a time."""

    def __init__(
        self, places: Paths, cell: Identity, log: structlog.stdlib.BoundLogger, also: Mapping[str, str]
    ) -> None:
        """`also` is in the environment of what installs."""
        self._places = places
        self._cell = cell
        self._also = also
        self._log = log
        self._underway: _Underway | None = None
        self._fit = "", ""
        # On a disk, if the path is short enough there; else in a place that all agents share, with a name of our own.
        self._scratch = f"{places.bot}/.rehearsal"
        if len(self._scratch) > SCRATCH_CHARS:
            name = hashlib.sha256(os.fsencode(places.bot)).hexdigest()[:12]
            self._scratch = f"{tempfile.gettempdir()}/.rehearsal-{name}"

    def is_fit(self, branch: str, commit: str) -> bool:
        return (branch, commit) == self._fit

    def installing(self, copy: str, seconds: float, others: Iterable[str] = ()) -> Step:
        """The environment of the version in `copy`; those of the `others` stay."""
        given = [self._places.bot, self._places.environments, str(seconds), copy, *others]
        words = keep_command("infra.keep.environments.install", *given)
        env = keep_environment() | {"HOME": "/nonexistent", **self._also}
        return Step("its environment is installed", words, env, seconds + GRACE_SECONDS, _installed)

    def rehearsing(self, commit: str, pack: bytes, python: str, seconds: float) -> Step:
        words, longest = verdict.command(commit, self._scratch, python, seconds), verdict.longest_seconds(seconds)
        return Step("it is rehearsed", words, verdict.environment(), longest, _rehearsed, self._scratch, pack)

    def begin(self, step: Step, launch: Launch, runner: Runner) -> None:
        """Raises OSError."""
        self.cancel()
        if step.scratch:
            self.remove_leftovers()
            with self._cell.acting():
                os.mkdir(step.scratch, mode=0o700)
        # The next watcher knows it by this and ends it, should this one be killed.
        env = step.env | {KEEPS: self._places.var}
        with in_memory(step.stdin) as given:
            child = Child(step.command, env, OUTPUT_BYTES, self._cell, stdin=given.fileno())
        self._underway = _Underway(step, launch, runner, child, time.monotonic())
        self._log.info("preparation.began", what=step.what, branch=runner.branch, commit=runner.commit, pid=child.pid)

    def pids(self) -> frozenset[int]:
        return frozenset({self._underway.child.pid} if self._underway else ())

    def pidfds(self) -> list[int]:
        return [self._underway.child.pidfd] if self._underway else []

    def look(self) -> Prepared | None:
        """The outcome, once; never waits."""
        if self._underway is None:
            return None
        step, launch, runner, child, began = self._underway
        is_over, late = child.is_over(), ("its preparation took too long", False, "")
        if not is_over and time.monotonic() < began + step.seconds:
            return None
        status = child.end()
        why, guilty, transcript = step.outcome(child.said(), status) if is_over else late
        child.forget()
        self._underway = None
        self.remove_leftovers()
        seconds = round(time.monotonic() - began, 3)
        facts = {"what": step.what, "branch": runner.branch, "commit": runner.commit, "why_not": why}
        self._log.info("preparation.ended", **facts, seconds=seconds)
        if not why:
            if step.outcome is _rehearsed:
                self._fit = runner.branch, runner.commit
            return Prepared(launch)
        named = f"{runner.branch}@{runner.commit[:12]} was not launched: {why}"
        return Prepared(launch, named, runner if guilty else None, transcript)

    def cancel(self) -> None:
        """End the step."""
        underway, self._underway = self._underway, None
        if underway:
            underway.child.end()
            underway.child.forget()
            self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Of a rehearsal, also of one whose watcher was killed. Its processes must have ended."""
        where, name = os.path.split(self._scratch)
        try:
            Below(where, self._cell).remove(name, REMOVE_SECONDS)
        except OSError as error:
            self._log.warning("rehearsal.not_removed", path=self._scratch, reason=redacted_and_cut(str(error), 300))


def _installed(said: bytes, status: int) -> tuple[str, bool, str]:
    # All of it together: a key may have several lines.
    why, _, lines = redacted(plain(said.decode(errors="replace"))).partition("\n")
    why = f"its requirements could not be installed: {cut(why, verdict.WHY_CHARS) or f'status {status}'}"
    return why if status else "", status == Exit.FAILURE, lines[-verdict.TRANSCRIPT_CHARS :]


def _rehearsed(said: bytes, _: int) -> tuple[str, bool, str]:
    found = verdict.read_verdict(said)
    if found.fit:
        return "", False, ""
    if found.fit is None:
        return f"it could not be rehearsed, which does not count against it; signal again: {found.why}", False, ""
    return f"it failed its rehearsal: {found.why}", True, found.transcript
