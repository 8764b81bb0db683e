"""Runs examinations outside the watcher's loop. Requests are refs; two processes with a socket between them do the rest
(`examination.__main__`).

A request is removed once its verdict is stored, or nothing can be examined. When the watcher ends before that, the next
one starts the examination again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from infra.keep.environments import choose
from infra.keep.examination.__main__ import longest_seconds
from infra.keep.examination.plan import ExaminationSettings
from infra.keep.programs import keep_command, keep_environment
from infra.keep.services import processes
from infra.keep.services.children import KEEPS, Child
from infra.keep.timing import Timing
from infra.keep.verdicts import refs
from infra.shared.exit_codes import Exit
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_and_cut

AROUND_SECONDS = 180.0
"""For what the judge does before and after."""
AGAIN_SECONDS = 30.0
"""After an examination that failed because of the machine."""
OUTPUT_BYTES = 64 * 1024
MEMORY = "/dev/shm"  # noqa: S108 - a directory of our own there


class _Trial(NamedTuple):
    branch: str
    commit: str
    judge: Child
    examiner: Child
    deadline: float


class Trials:
    """Examinations of one agent, one at a time."""

    def __init__(
        self,
        places: Paths,
        timing: Timing,
        cell: Identity,
        examiner: Identity,
        ours: Sequence[str],
        is_fit: Callable[[str, str], bool],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        """`ours`: where the examiner may write, and nothing else of that user's lies; the first is for checkouts, none
        has this class find one. `is_fit`: whether a branch's commit has passed its rehearsal."""
        self._places, self._timing, self._is_fit, self._log = places, timing, is_fit, log
        self._cell, self._examiner, self._ours = cell, examiner, ours
        self._git = Git(places.remote, WATCHER, {"GIT_DIR": places.remote})
        self._memory = f"{MEMORY}/mf-{hashlib.sha256(os.fsencode(places.var)).hexdigest()[:12]}"
        self._trial: _Trial | None = None
        self._next = 0.0

    def pids(self) -> frozenset[int]:
        return frozenset({self._trial.judge.pid, self._trial.examiner.pid} if self._trial else ())

    def pidfds(self) -> list[int]:
        return [self._trial.judge.pidfd] if self._trial else []

    def look(self, is_calm: bool, at: float) -> None:
        """End the current examination, or begin the next when `is_calm`. Never waits for a process."""
        trial = self._trial
        if trial is None:
            if is_calm and at >= self._next and refs.is_asked(self._places.remote):
                self._begin(at)
            return
        is_late = at > trial.deadline
        if is_late:
            trial.judge.kill()
        if not trial.judge.is_over():
            return
        status, facts = self._end(trial), {"branch": trial.branch, "commit": trial.commit}
        if status == Exit.OK:
            self._log.info("examination.ended", **facts)
        elif status == Exit.CONFLICT:
            self._log.warning("examination.dropped", reason="it cannot be merged", **facts)
        else:
            self._next = at + AGAIN_SECONDS
            self._log.error("examination.failed", reason=processes.how_it_ended(status), **facts)
            if is_late:  # or it would come first for ever, with the same end
                with contextlib.suppress(GitError, OSError):
                    refs.forget_request(self._git, trial.branch, trial.commit)

    def cancel(self) -> None:
        """Stop it; the request stays, so it is run again later."""
        if self._trial:
            self._end(self._trial)

    def _begin(self, at: float) -> None:
        try:
            branch, commit = next(iter(refs.requests(self._git)), ("", ""))
            if branch:
                self._trial = self._start(branch, commit, at)
                self._log.info("examination.began", branch=branch, commit=commit)
            else:
                self._next = at + AGAIN_SECONDS  # there is a file that is not a request
        except (GitError, OSError) as error:
            self._next = at + AGAIN_SECONDS
            self._log.error("examination.failed", reason=redacted_and_cut(str(error), 1000))

    def _start(self, branch: str, commit: str, at: float) -> _Trial:
        """Raises GitError, OSError."""
        places, timing = self._places, self._timing
        settings = ExaminationSettings(
            rehearse=timing.rehearse,
            rehearsed=self._is_fit(branch, commit),
            rehearsal_seconds=timing.rehearsal_seconds,
            seconds=timing.validation_seconds,
            python=self._python(branch),
        )
        words = [f"--remote={places.remote}", f"--branch={branch}", f"--commit={commit}"]
        words += [f"--settings={msgspec.json.encode(settings).decode()}"]
        ours = self._ours or self._in_memory()
        runs = [*(["--apart"] if self._examiner.uid else []), *(f"--ours={each}" for each in ours)]
        one, other = socket.socketpair()
        with one, other, open(f"{places.var}/examination.log", "wb") as log:
            judge = self._child("judge", words, one, log.fileno(), OURS, "")
            try:
                examiner = self._child("examine", runs, other, log.fileno(), self._examiner, [*ours, ""][0])
            except OSError:
                judge.end()
                judge.forget()
                raise
        return _Trial(branch, commit, judge, examiner, at + longest_seconds(settings) + AROUND_SECONDS)

    def _child(
        self, part: str, words: list[str], stdin: socket.socket, errors: int, who: Identity, temporary: str
    ) -> Child:
        """Raises OSError."""
        env = keep_environment() | {KEEPS: self._places.var, "HOME": "/nonexistent"}
        env |= {"TMPDIR": temporary} if temporary else {}
        command = keep_command("infra.keep.examination", part, *words)
        return Child(command, env, OUTPUT_BYTES, who, stdin=stdin.fileno(), stderr=errors)

    def _in_memory(self) -> tuple[str, ...]:
        """A directory of this agent's alone, where files are fast; none where no program may be run."""
        with contextlib.suppress(OSError):
            os.makedirs(self._memory, mode=0o700, exist_ok=True)
            is_ours = os.lstat(self._memory).st_uid == os.getuid()
            return (self._memory,) if is_ours and not os.statvfs(self._memory).f_flag & os.ST_NOEXEC else ()
        return ()

    def _python(self, branch: str) -> str:
        """The interpreter of the environment that the branch's clone has, if it has one of its own."""
        places = self._places
        try:
            bot = Below(places.bot, self._cell)
            return choose.interpreter(bot, places.checkout(branch), bot, places.environments) or sys.executable
        except (OSError, ValueError):
            return sys.executable

    def _end(self, trial: _Trial) -> int:
        """The judge's exit status."""
        self._trial = None
        trial.examiner.end()
        status = trial.judge.end()
        for child in (trial.examiner, trial.judge):
            child.forget()
        with contextlib.suppress(OSError):
            os.rmdir(self._memory)
        if self._examiner.uid and os.getpid() == 1:  # what the examiner left behind
            processes.signal_all_of(self._examiner, signal.SIGKILL)
        return status
