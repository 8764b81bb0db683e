"""The watcher's persistent state: `State` to and from `watcher.json`, written to disk before it is acted on, with the
reports that are not on the page yet; and the lock that allows one watcher per agent."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Any

import structlog

from infra.keep.active import Level
from infra.keep.running_code import running_code
from infra.keep.supervision.decide.events import Action, Launch, LookAtMain, Sweep, Tell
from infra.keep.supervision.decide.state import Instant, Patience, Phase, State
from infra.keep.supervision.reports import Reports
from infra.keep.watcher_file import Remembered, Report, Trouble, WatcherFile, decode, encode
from infra.shared.branches import problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.file_lock import lock_until
from infra.shared.files import write_whole


def to_file(state: State, untold: tuple[Report, ...], now: Instant) -> WatcherFile:
    """The part of `state` to persist; the runner stays named while it may be alive."""
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
    """The initial state of a watcher. The runner is not part of it; it is searched for."""
    return State(phase=Phase.STARTING, since=now, patience=patience, **_remembered(file))


def _remembered(of: Remembered) -> dict[str, Any]:
    return {name: getattr(of, name) for name in Remembered.__struct_fields__}


def may_be_lost(state: State, actions: Sequence[Action], kept: Remembered) -> bool:
    """Whether a watcher that is killed before it writes this decision down loses nothing by it.

    The decision leads to a launch, and the attempt is written down with all that was decided before it: an agent that
    died is not kept waiting for the disk twice. The next watcher decides the same again, except whom to blame, since
    it does not know how the runner died."""
    return (
        any(isinstance(action, LookAtMain | Launch) for action in actions)
        and all(isinstance(action, Sweep | LookAtMain | Launch | Tell) for action in actions)
        and _judgement(state) == _judgement(kept)
    )


def _judgement(of: Remembered) -> tuple[object, ...]:
    return of.pins, of.version_failures, of.safe_mode_failures, of.known_good


class WatcherMemory:
    """Reads and writes `watcher.json`; writes only changes."""

    def __init__(self, path: str, reports: Reports, log: structlog.stdlib.BoundLogger) -> None:
        self._path = path
        self._reports = reports
        self._log = log
        self._kept = WatcherFile()
        """As it is on the disk."""
        self.is_behind = False
        """The last write failed."""
        self._is_put_off = False
        self._last_trouble: Trouble | None = None
        self._is_outdated = False

    def read(self) -> tuple[WatcherFile, str]:
        """The state that an earlier watcher left, and what was wrong with it; its unsent reports are taken over."""
        file, problem = load(self._path)
        if problem:
            self._log.error("memory.unreadable", reason=problem)
        self._kept = file
        self._last_trouble = file.troubles[-1] if file.troubles else None
        self._reports.take_up(file.untold)
        return file, problem

    @property
    def is_due(self) -> bool:
        """A write failed or was put off, or the reports have changed since."""
        return self.is_behind or self._is_put_off or self._reports.untold != self._kept.untold

    def keep(self, state: State, actions: Sequence[Action], at: Instant, may_wait: bool = False) -> bool:
        """Write the state durably, with the reports in `actions`, so that no decision is lost when the watcher is
        killed. With `may_wait`, a decision that may be lost is written by the next call.

        False when the write failed, which is logged while supervision goes on, or was postponed."""
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
        self._is_put_off = may_wait and may_be_lost(state, actions, self._kept)
        if self._is_put_off:
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
"""`minifram status` takes a shared lock for a moment to see whether a watcher is running; wait that long for it."""


class AlreadyRunning(Exception):
    """Another watcher holds the lock; carries its pid as it wrote it."""

    def __init__(self, path: str, pid: str) -> None:
        super().__init__(f"a watcher (pid {pid or 'unknown'}) already holds {path}; one agent has one watcher")
        self.pid = pid


def lock(path: str) -> int:
    """Take the lock for as long as this process lives; gives its descriptor. Raises AlreadyRunning, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not lock_until(descriptor, time.monotonic() + LOOKERS_SECONDS, 0.02):
        pid = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise AlreadyRunning(path, pid)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
