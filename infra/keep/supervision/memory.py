"""The watcher's memory over its own death: `State` to and from `watcher.json`, on the disk before anything is done on
the strength of it, with the reports that the PM has not read yet; and the lock that one watcher holds."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable
from typing import Any

import structlog

from infra.keep.supervision.decide.events import Action, Tell
from infra.keep.supervision.decide.state import Instant, Patience, Phase, State
from infra.keep.supervision.reports import Reports
from infra.shared.active import Level
from infra.shared.branches import problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.running_code import running_code
from infra.shared.watcher_file import Remembered, Report, Trouble, WatcherFile, decode, encode


def to_file(state: State, untold: tuple[Report, ...], now: Instant) -> WatcherFile:
    """What is worth keeping of `state`; the runner stays named while it may be alive."""
    runner = state.runner or state.attempt

    def wall(monotonic: float | None) -> str:
        return "" if monotonic is None else timestamp(now.wall + monotonic - now.monotonic)

    return WatcherFile(
        **_remembered(state),
        phase=state.phase.value,
        since=timestamp(state.since.wall),
        until=wall(state.deadline) if state.phase is Phase.WAITING else "",
        branch=runner.branch if runner else "",
        commit=runner.commit if runner else "",
        boot_id=runner.boot_id if runner else "",
        runner_pid=runner.pid if runner else 0,
        runner_started=runner.started if runner else 0.0,
        level=runner.level.value if runner else Level.MAIN.value,
        version=runner.version if runner else "",
        launched_for=runner.launched_for if runner else "",
        make_way_by=wall(state.make_way_by) if runner else "",
        code=running_code(),
        untold=untold,
    )


def from_file(file: WatcherFile, patience: Patience, now: Instant) -> State:
    """The state of a watcher that begins. The runner is not in it: it is looked for."""
    return State(phase=Phase.STARTING, since=now, patience=patience, **_remembered(file))


def _remembered(of: Remembered) -> dict[str, Any]:
    return {name: getattr(of, name) for name in Remembered.__struct_fields__}


class WatcherMemory:
    """`watcher.json` over time; written only when it would say something new."""

    def __init__(self, path: str, reports: Reports, log: structlog.stdlib.BoundLogger) -> None:
        self._path = path
        self._reports = reports
        self._log = log
        self._kept = WatcherFile()
        self.is_behind = False
        """The disk refused the last write."""
        self._is_put_off = False
        self._last_trouble: Trouble | None = None
        self._is_outdated = False

    def read(self) -> tuple[WatcherFile, str]:
        """What an earlier watcher left, and what was wrong with it; its reports are still to be sent."""
        file, problem = load(self._path)
        if problem:
            self._log.error("memory.unreadable", reason=problem)
        self._last_trouble = file.troubles[-1] if file.troubles else None
        self._reports.take_up(file.untold)
        return file, problem

    @property
    def is_due(self) -> bool:
        """A write failed or was put off, or the reports have changed since."""
        return self.is_behind or self._is_put_off or self._reports.untold != self._kept.untold

    def keep(self, state: State, actions: Iterable[Action], at: Instant, may_wait: bool = False) -> bool:
        """Durably, with the reports among `actions`: a watcher that is killed now has decided nothing in silence. What
        may wait is kept by the next call.

        False when the disk refuses, which is logged while supervision goes on, and when it was put off."""
        for action in actions:
            if isinstance(action, Tell):
                self._reports.add(action, at)
        if state.troubles and state.troubles[-1] != self._last_trouble:
            self._last_trouble = state.troubles[-1]
            self._log.warning("trouble", text=self._last_trouble.text)
        if (state.make_way_by is not None) is not self._is_outdated:
            self._is_outdated = state.make_way_by is not None
            if self._is_outdated:
                self._log.info("runner.outdated", main=state.main.commit, seconds=state.patience.make_way)
        self._is_put_off = may_wait
        if may_wait:
            return False
        file = to_file(state, self._reports.untold, at)
        try:
            if file != self._kept:
                save(self._path, file)
                self._kept = file
        except OSError as error:
            if not self.is_behind:
                self._log.error("memory.not_saved", reason=str(error))
            self.is_behind = True
            return False
        self.is_behind = False
        return True


def load(path: str) -> tuple[WatcherFile, str]:
    """The remembered file, and what was wrong with it ('' for nothing).

    Supervision must go on without a file that cannot be read: it is kept as `.unreadable`, and the one before it as
    `.unreadable.before`."""
    try:
        with open(path, "rb") as content:
            file = decode(content.read())
        problem = problem_with_branch(file.branch) if file.branch else None
        if problem or bool(file.branch) != bool(file.boot_id):
            raise ValueError(problem or "a branch without its boot")
        for level in (file.level, *(boot.level for boot in file.boots)):
            Level(level)
        return file, ""
    except FileNotFoundError:
        return WatcherFile(), ""
    except (OSError, ValueError) as error:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}.unreadable", f"{path}.unreadable.before")
            os.replace(path, f"{path}.unreadable")
        except OSError as second:
            return WatcherFile(), f"{path}: {error}; nor could it be set aside: {second}"
        return WatcherFile(), f"{path}: {error}; it was set aside as {path}.unreadable"


def save(path: str, file: WatcherFile) -> None:
    """Raises OSError."""
    write_whole(path, encode(file), mode=0o600)


LOOKERS_SECONDS = 0.3
"""`minifram status` takes a shared lock for a moment to see whether a watcher lives: that is waited out."""


class AlreadyRunning(Exception):
    """Another watcher holds the lock; carries its pid as it wrote it."""

    def __init__(self, path: str, pid: str) -> None:
        super().__init__(f"a watcher (pid {pid or 'unknown'}) already holds {path}; one agent has one watcher")
        self.pid = pid


def lock(path: str) -> int:
    """Take the lock for as long as this process lives; gives its descriptor. Raises AlreadyRunning, OSError.

    A flock goes with the process, so a killed watcher never leaves a stale one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOOKERS_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                pid = os.read(descriptor, 32).decode(errors="replace").strip()
                os.close(descriptor)
                raise AlreadyRunning(path, pid) from None
            time.sleep(0.02)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
