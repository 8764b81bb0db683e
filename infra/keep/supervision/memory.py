"""The watcher's memory over its own death: `State` to and from `watcher.json`, and the lock that one watcher holds."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from infra.keep.supervision.states import Instant, Patience, Phase, State
from infra.shared.active import Level
from infra.shared.branches import problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.watcher_file import Report, WatcherFile, decode, encode


def to_file(state: State, untold: tuple[Report, ...], now: Instant) -> WatcherFile:
    """What is worth keeping of `state`; the runner stays named while it may be alive."""
    runner = state.runner
    waiting = state.phase is Phase.WAITING and state.deadline is not None
    until = now.wall + state.deadline - now.monotonic if waiting and state.deadline is not None else None
    make_way_by = now.wall + state.make_way_by - now.monotonic if runner and state.make_way_by is not None else None
    return WatcherFile(
        phase=state.phase.value,
        since=timestamp(state.since.wall),
        until=timestamp(until) if until else "",
        branch=runner.branch if runner else "",
        commit=runner.commit if runner else "",
        boot_id=runner.boot_id if runner else "",
        runner_pid=runner.pid if runner else 0,
        runner_started=runner.started if runner else 0.0,
        level=runner.level.value if runner else "main",
        version=runner.version if runner else "",
        launched_for=runner.launched_for if runner else "",
        main=state.main,
        known_good=state.known_good,
        pins=state.pins,
        version_failures=state.version_failures,
        withdrawn=state.withdrawn,
        pardoned=state.pardoned,
        safe_mode_failures=state.safe_mode_failures,
        make_way_by=timestamp(make_way_by) if make_way_by is not None else "",
        failures=state.failures,
        pending=state.request,
        handled=state.handled,
        boots=state.boots,
        troubles=state.troubles,
        untold=untold,
    )


def from_file(file: WatcherFile, patience: Patience, now: Instant) -> State:
    """The state of a watcher that begins, with what an earlier one remembered. The runner is found anew."""
    return State(
        phase=Phase.STARTING,
        since=now,
        patience=patience,
        request=file.pending,
        main=file.main,
        known_good=file.known_good,
        pins=file.pins,
        version_failures=file.version_failures,
        withdrawn=file.withdrawn,
        pardoned=file.pardoned,
        safe_mode_failures=file.safe_mode_failures,
        failures=file.failures,
        handled=file.handled,
        boots=file.boots,
        troubles=file.troubles,
    )


def load(path: str) -> tuple[WatcherFile, str]:
    """The remembered file, and what was wrong with it ('' for nothing).

    A file that cannot be read is kept beside under `.unreadable` (and the one before it as `.unreadable.before`):
    supervision must go on without it."""
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
    """Durably, before anything is done on the strength of it. Raises OSError."""
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
