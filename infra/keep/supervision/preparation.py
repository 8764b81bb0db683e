"""What comes before a launch, in a process of its own as the cell: the version's environment is installed, and a branch
is rehearsed. The watcher goes on meanwhile; a sweep ends this like everything else of the cell's.

What is fit is remembered by branch and commit, so that a launch that was put off is not rehearsed again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from infra.keep.environments import request, result
from infra.keep.rehearsal import verdict
from infra.keep.services.services import dies_with_us
from infra.keep.supervision.decide.events import Launch, Preparing
from infra.shared import processes
from infra.shared.active import Runner
from infra.shared.identity import Identity
from infra.shared.places import Places
from infra.shared.programs import keep_command, keep_environment

SCRATCH_CHARS = 84
"""The longest path of a scratch directory: sockets lie below it (unix(7))."""
OUTPUT_BYTES = 256 * 1024
_SCRATCH = ".rehearsal-"
_LEFT = 100
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


class _Child(NamedTuple):
    step: Step
    launch: Launch
    runner: Runner
    """The version that it is about."""
    process: subprocess.Popen[bytes]
    pidfd: int
    output: int
    """Where its stdout goes: a file in memory, of bounded size."""
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

    def __init__(self, places: Places, cell: Identity, log: structlog.stdlib.BoundLogger) -> None:
        self._places = places
        self._cell = cell
        self._log = log
        self._child: _Child | None = None
        self._fit: set[tuple[str, str]] = set()

    def is_fit(self, branch: str, commit: str) -> bool:
        return (branch, commit) in self._fit

    def installing(self, checkout: str, seconds: float) -> Step:
        places = self._places
        asked = request.InstallRequest(places.bot, checkout, places.environments, places.wheels, seconds)
        words = dies_with_us(keep_command("infra.keep.environments.install", *request.to_words(asked)))
        env = keep_environment() | {"HOME": "/nonexistent"}
        return Step("its environment is installed", words, env, seconds + GRACE_SECONDS, _installed)

    def rehearsing(self, checkout: str, branch: str, commit: str, python: str, seconds: float) -> Step:
        """Raises OSError when there is no place for it."""
        words = verdict.command(checkout, branch, commit, self._scratch(), python, seconds)
        return Step("it is rehearsed", words, verdict.environment(), verdict.longest_seconds(seconds), _rehearsed)

    def begin(self, step: Step, launch: Launch, runner: Runner) -> Preparing:
        """Raises OSError."""
        self.cancel()
        # Known by it, should the watcher be killed: the next one ends it.
        env = step.env | {processes.KEEPS_GIT: self._places.var}
        output = os.memfd_create("preparation", os.MFD_CLOEXEC)
        try:
            with self._cell.acting():
                process = subprocess.Popen(
                    step.command,
                    cwd="/",
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    **self._cell.for_child,
                )
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            os.close(output)
            raise
        self._child = _Child(step, launch, runner, process, pidfd, output, time.monotonic())
        self._log.info("preparation.began", what=step.what, branch=runner.branch, commit=runner.commit, pid=process.pid)
        return Preparing(launch.branch, step.seconds)

    def pids(self) -> frozenset[int]:
        return frozenset({self._child.process.pid} if self._child else ())

    def pidfds(self) -> list[int]:
        return [self._child.pidfd] if self._child else []

    def look(self) -> Prepared | None:
        """The outcome, once; never waits."""
        child = self._child
        if child is None:
            return None
        if os.fstat(child.output).st_size > OUTPUT_BYTES:
            child.process.kill()
        if not processes.is_over(child.pidfd):
            return None
        status = child.process.wait()
        said = os.pread(child.output, OUTPUT_BYTES, 0)
        self._forget(child)
        why, guilty, transcript = child.step.outcome(said, status)
        runner = child.runner
        self._log.info(
            "preparation.ended",
            what=child.step.what,
            branch=runner.branch,
            commit=runner.commit,
            why_not=why,
            seconds=round(time.monotonic() - child.began, 3),
        )
        if not why:
            if child.step.outcome is _rehearsed:
                self._fit.add((runner.branch, runner.commit))
            return Prepared(child.launch)
        named = f"{runner.branch}@{runner.commit[:12]} was not launched: {why}"
        return Prepared(child.launch, named, runner if guilty else None, transcript)

    def cancel(self) -> Launch | None:
        """Nobody waits for it any more; the launch that it was for."""
        child = self._child
        if child is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, 9)
        child.process.wait()
        self._forget(child)
        return child.launch

    def _forget(self, child: _Child) -> None:
        os.close(child.pidfd)
        os.close(child.output)
        self._child = None

    def _scratch(self) -> str:
        """A fresh directory of the cell's, on a disk if its path can be short enough there."""
        places = (self._places.bot, tempfile.gettempdir())
        where = next((path for path in places if len(path) + len(_SCRATCH) + 10 <= SCRATCH_CHARS), places[1])
        with self._cell.acting():
            # A fresh name each time; what one that was killed left goes by a program, as a tree may be of any size.
            left = [f"{where}/{name}" for name in os.listdir(where) if name.startswith(_SCRATCH)][:_LEFT]
            made = tempfile.mkdtemp(prefix=_SCRATCH, dir=where)
        if left and where == self._places.bot:
            self._removed(left)
        return made

    def _removed(self, paths: list[str]) -> None:
        with self._cell.acting():
            subprocess.Popen(
                dies_with_us(["rm", "-rf", "--", *paths]),
                cwd="/",
                env=keep_environment() | {processes.KEEPS_GIT: self._places.var},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                **self._cell.for_child,
            )


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
        return f"it could not be rehearsed, which says nothing against it; signal again: {found.why}", False, ""
    return f"it did not live through its rehearsal: {found.why}", True, found.transcript
