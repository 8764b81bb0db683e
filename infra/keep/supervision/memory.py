"""The watcher's memory: its state in `watcher.json`, on the disk before it is acted on; its lines in the boot logs; and
the lock that allows one watcher per agent."""

from __future__ import annotations

import os

import structlog
from msgspec.structs import replace

from infra.keep import boot_files
from infra.keep.running_code import running_code
from infra.keep.supervision.decide.events import Event, NotLaunched
from infra.keep.supervision.following import brief
from infra.keep.watcher_file import Instant, Outcome, Patience, Phase, Report, State, decode, encode
from infra.shared.boot import BY, ENDED, FAILED, WATCHER, BootLine
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.files import lock_within, write_whole
from infra.shared.paths import Paths
from infra.shared.safe_files import Below

UNKNOWN_BOOT, UNKNOWN_COMMIT = "0" * 32, "-"
WORDS = {Outcome.FAILED: FAILED, Outcome.DIED: ENDED, Outcome.LEFT: ENDED}
LOOKERS_SECONDS = 0.3
"""`minifram status` takes a shared lock for a moment to see whether a watcher is running; wait that long for it."""


def resumed(state: State, patience: Patience) -> State:
    """What an earlier watcher knew, but for what was on its clock."""
    phase = state.phase if state.runner else Phase.STARTING
    state = replace(state, phase=phase, since=Instant(), deadline=None, hops=(), make_way_by=None)
    return replace(state, stopping=False, patience=patience, code=running_code())


def load(path: str, patience: Patience) -> tuple[State, str]:
    """What an earlier watcher wrote down, and what was wrong with it, or nothing.

    Supervision must go on without a file that cannot be read: it is kept as `.unreadable`."""
    try:
        with open(path, "rb") as file:
            state = decode(file.read())
        if state.runner and (problem := problem_with_branch(state.runner.branch)):
            raise ValueError(problem)
        return resumed(state, patience), ""
    except FileNotFoundError:
        return resumed(State(), patience), ""
    except (OSError, ValueError) as error:
        what = f"{path}: {error}; it was set aside as {path}.unreadable"
        try:
            os.replace(path, f"{path}.unreadable")
        except OSError as second:
            what = f"{path}: {error}; nor could it be set aside: {second}"
        return resumed(State(), patience), what


class WatcherMemory:
    """Writes `watcher.json`, when something in it has changed."""

    def __init__(self, path: str, log: structlog.stdlib.BoundLogger) -> None:
        self._path = path
        self._log = log
        self._kept: tuple[State, tuple[Report, ...]] | None = None
        self.is_behind = False
        """The last write failed."""

    def keep(self, state: State, untold: tuple[Report, ...]) -> bool:
        """Write it durably, with the reports that are not on the page. False when that failed, which is logged while
        supervision goes on."""
        try:
            if (state, untold) != self._kept:
                write_whole(self._path, encode(replace(state, untold=untold)), mode=0o600)
                self._kept = state, untold
        except OSError as error:
            if not self.is_behind:
                self._log.error("memory.not_saved", reason=str(error))
            self.is_behind = True
            return False
        self.is_behind = False
        return True


def boot_lines(before: State, event: Event, after: State, now: Instant) -> list[BootLine]:
    """Which attempts ended between two states, through `event`: so the boot logs hold every attempt with its time and
    outcome (seed 001). A runner writes its own steps, but not what it does not live to write, or cannot know."""
    known = {boot.boot_id: boot.outcome for boot in before.boots}
    lines = [
        _line(boot.branch, boot.commit, boot.boot_id, boot.outcome, boot.detail, now)
        for boot in after.boots
        if boot.outcome in WORDS and known.get(boot.boot_id) is not boot.outcome
    ]
    if isinstance(event, NotLaunched) and before.runner is None and after.troubles != before.troubles:
        commit = event.guilty.commit if event.guilty else ""
        lines.append(_line(event.branch, commit, "", Outcome.FAILED, after.troubles[-1].text, now))
    return lines


def _line(branch: str, commit: str, boot_id: str, outcome: Outcome, why: str, now: Instant) -> BootLine:
    details = {BY: WATCHER, "outcome": outcome.value, "reason": brief(why)}
    at = timestamp(now.wall)
    return BootLine(at, WORDS[outcome], branch, commit or UNKNOWN_COMMIT, boot_id or UNKNOWN_BOOT, details)


def record(bot: Below, places: Paths, lines: list[BootLine], log: structlog.stdlib.BoundLogger) -> None:
    """Add them to the boot logs of the clones. Nothing is decided from these lines."""
    for line in lines:
        for branch in dict.fromkeys((line.branch, MAIN)):  # a branch without a clone is recorded where main is
            try:
                boot_files.add_to_boot_log(bot, places.checkout(branch), line)
                break
            except Exception as error:  # whatever it is, an agent without its watcher is worse
                log.warning("attempt.not_recorded", branch=branch, reason=brief(error))


class AlreadyRunning(Exception):
    """Another watcher holds the lock; carries its pid as it wrote it."""

    def __init__(self, path: str, pid: str) -> None:
        super().__init__(f"a watcher (pid {pid or 'unknown'}) already holds {path}; one agent has one watcher")
        self.pid = pid


def lock(path: str) -> int:
    """Take the lock for as long as this process lives; gives its descriptor. Raises AlreadyRunning, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not lock_within(descriptor, LOOKERS_SECONDS):
        pid = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise AlreadyRunning(path, pid)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
