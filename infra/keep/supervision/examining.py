"""Runs examinations outside the watcher's loop. Requests are refs; three processes run one after another
(`examination.__main__`). While the candidate's code runs in the second, all processes of the cell are stopped.

A request is removed once its verdict is stored. When the watcher is killed before that, the next one starts the
examination again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from infra.keep.environments import requirements, store
from infra.keep.examination.plan import CLEAR_SECONDS
from infra.keep.programs import keep_command, keep_environment
from infra.keep.services import processes
from infra.keep.services.children import KEEPS_GIT, Child
from infra.keep.settings import Settings
from infra.keep.supervision.decide.state import Phase, State
from infra.keep.supervision.zones import Zones
from infra.keep.verdicts import refs
from infra.shared.exit_codes import Exit
from infra.shared.identity import OURS, Identity
from infra.shared.paths import ROOT
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_and_cut

PREPARE_SECONDS, CONCLUDE_SECONDS = 90.0, 90.0
GRACE_SECONDS = 180.0
"""Over the time that the tests may take: for checkouts, the rehearsal and a second run of what failed."""
AGAIN_SECONDS = 30.0
"""Before retrying an examination that failed because of the machine."""
ATTEMPTS = 3
OUTPUT_BYTES = 256 << 20
"""Of a plan with its objects."""
_CALM = (Phase.RUNNING, Phase.WAITING)
"""Phases in which no runner is being started or stopped."""


class _Part(NamedTuple):
    name: str
    child: Child
    deadline: float


class _Wanted(NamedTuple):
    branch: str
    commit: str
    began: float
    """Seconds since the epoch."""


_NOTHING = _Wanted("", "", 0.0)


class Examining:
    """Examinations of one agent, one at a time."""

    def __init__(
        self,
        settings: Settings,
        zones: Zones,
        is_fit: Callable[[str, str], bool],
        keep_pids: Callable[[], frozenset[int]],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._settings, self._zones, self._log = settings, zones, log
        self._is_fit = is_fit
        """Whether a branch's commit has passed its rehearsal."""
        self._keep_pids = keep_pids
        """Of the keep's other processes."""
        self._git = Git(zones.places.remote, WATCHER, {"GIT_DIR": zones.places.remote})
        self._part: _Part | None = None
        self._wanted = _NOTHING
        self._plan = -1
        self._failures = 0
        self._next = 0.0
        self._held_since: float | None = None
        self._runner = 0

    @property
    def is_holding(self) -> bool:
        return self._held_since is not None

    def pids(self) -> frozenset[int]:
        return frozenset({self._part.child.pid} if self._part else ())

    def pidfds(self) -> list[int]:
        return [self._part.child.pidfd] if self._part else []

    def look(self, state: State, at: float) -> float:
        """Continue the current examination or begin the next. Returns how long the cell was stopped, once that is over.

        Never waits for a child process."""
        if self._part is None:
            if state.phase in _CALM and not state.stopping and not state.request and at >= self._next:
                try:
                    self._begin(state, at)
                except (GitError, OSError) as error:
                    self._failed(str(error), at)
            return 0.0
        name, child, deadline = self._part
        if at > deadline:
            child.kill()
        if not child.is_over():
            return 0.0
        status = child.end()
        held = self.let_go(at)
        try:
            self._go_on(name, child.output, status, at)
        except OSError as error:
            self._failed(str(error), at)
        finally:
            child.forget()
        return held

    def let_go(self, at: float) -> float:
        """Resume the cell; returns how long it was stopped."""
        if self._held_since is None:
            return 0.0
        held, self._held_since = at - self._held_since, None
        processes.let_go(self._keep_pids() | self.pids(), self._zones.cell, self._runner)
        return held

    def cancel(self) -> None:
        """Stop it; the request stays, so it is run again later."""
        self.let_go(time.monotonic())
        part, self._part = self._part, None
        if part:
            part.child.end()
            part.child.forget()
        self._end_examiner()
        self._forget()

    def _begin(self, state: State, at: float) -> None:
        """Raises GitError, OSError."""
        if not refs.is_asked(self._zones.places.remote):
            return
        waiting = refs.requests(self._git)
        if not waiting:
            self._next = at + AGAIN_SECONDS  # there is a file that is not a request
            return
        branch, commit = waiting[0]
        self._wanted = _Wanted(branch, commit, time.time())
        self._runner = state.runner.pid if state.runner else 0
        timing = self._zones.timing
        words = [f"--remote={self._zones.places.remote}", f"--branch={branch}", f"--commit={commit}"]
        words += [f"--rehearsal-seconds={timing.rehearsal_seconds:g}", f"--seconds={timing.validation_seconds:g}"]
        words += [f"--python={self._python(branch)}"]
        words += [] if timing.rehearse else ["--unrehearsed"]
        words += ["--rehearsed"] if self._is_fit(branch, commit) else []
        self._start("prepare", words, at + PREPARE_SECONDS)
        self._log.info("examination.began", branch=branch, commit=commit)

    def _python(self, branch: str) -> str:
        """The interpreter of the environment that the branch's clone has, if it has one of its own."""
        places = self._zones.places
        try:
            bot = Below(places.bot, self._zones.cell)
            own = f"{ROOT}/{requirements.NAMES[0]}"
            return store.select(bot, places.checkout(branch), own, places.environments) or sys.executable
        except (requirements.BadRequirements, OSError, ValueError):
            return sys.executable

    def _go_on(self, part: str, output: int, status: int, at: float) -> None:
        """Raises OSError."""
        self._part = None
        match part:
            case "prepare" if status == Exit.OK:
                self._plan = os.dup(output)
                timing = self._zones.timing
                longest = timing.validation_seconds + 4 * timing.rehearsal_seconds + 2 * CLEAR_SECONDS + GRACE_SECONDS
                words = ["--apart"] if self._zones.examiner.uid and self._zones.scratch else []
                self._start("examine", words, at + longest, self._zones.examiner, self._plan)
                self._held_since = at
                processes.hold(self._keep_pids() | self.pids(), self._zones.cell, self._runner)
            case "prepare" if status == Exit.CONFLICT:
                self._drop("there is nothing to examine: it has moved, or it cannot be merged")
            case "examine":
                self._end_examiner()
                words = [f"--remote={self._zones.places.remote}", f"--began={self._wanted.began!r}"]
                words += [f"--plan={self._plan}", f"--answer={output}"]
                self._start("conclude", words, at + CONCLUDE_SECONDS, more=(self._plan, output))
            case "conclude" if status == Exit.OK:
                self._log.info("examination.ended", branch=self._wanted.branch, commit=self._wanted.commit)
                self._failures = 0
                self._forget()
            case _:
                self._failed(f"its part {part!r}: {processes.how_it_ended(status)}", at)

    def _start(
        self,
        part: str,
        words: list[str],
        deadline: float,
        who: Identity = OURS,
        stdin: int = subprocess.DEVNULL,
        more: tuple[int, ...] = (),
    ) -> None:
        """Raises OSError."""
        env = keep_environment() | {KEEPS_GIT: self._zones.places.var, "HOME": "/nonexistent"}
        if who.uid or self._zones.scratch:
            env["TMPDIR"] = self._zones.scratch or tempfile.gettempdir()
        if stdin >= 0:
            os.lseek(stdin, 0, os.SEEK_SET)
        command = keep_command("infra.keep.examination", part, *words)
        with open(f"{self._zones.places.var}/examination.log", "wb") as errors:
            child = Child(command, env, OUTPUT_BYTES, who, stdin=stdin, stderr=errors.fileno(), pass_fds=more)
        self._part = _Part(part, child, deadline)

    def _end_examiner(self) -> None:
        """Kill what the examiner left behind, where it has a uid of its own."""
        if self._zones.examiner.uid and os.getpid() == 1:
            processes.signal_all_of(self._zones.examiner, signal.SIGKILL)

    def _failed(self, why: str, at: float) -> None:
        """The machine failed: retry a few times."""
        self._failures += 1
        self._next = at + AGAIN_SECONDS
        self._log.error("examination.failed", reason=redacted_and_cut(why, 1000), attempt=self._failures)
        if self._failures >= ATTEMPTS:
            self._failures = 0
            self._drop("it failed several times in a row")
        else:
            self._forget()

    def _drop(self, why: str) -> None:
        """Remove the request."""
        if self._wanted.branch:
            self._log.warning("examination.dropped", branch=self._wanted.branch, reason=why)
            with contextlib.suppress(GitError):
                refs.forget_request(self._git, self._wanted.branch, self._wanted.commit)
        self._forget()

    def _forget(self) -> None:
        if self._plan >= 0:
            os.close(self._plan)
        self._plan, self._wanted = -1, _NOTHING
