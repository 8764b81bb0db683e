"""Tracks the runner by pidfd, from its start (or from where an earlier watcher left it) to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from infra.keep import boot_files
from infra.keep.active import Level, Runner
from infra.keep.services import children, processes
from infra.keep.supervision.decide.events import Died
from infra.keep.watcher_file import WatcherFile
from infra.shared import boot_log
from infra.shared.boot_log import BootLine
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_and_cut

BRIEF_CHARS = 1000
COUNT_SECONDS = 5.0
"""Between two looks at how often memory ran out: a runner that is killed so soon after was killed for that."""


class _Tracked(NamedTuple):
    """What it takes to follow the runner that was started or found."""

    runner: Runner
    pidfd: int
    process: subprocess.Popen[bytes] | None
    """None for a runner that an earlier watcher started: its exit status cannot be read."""
    log_size: int
    """Size of its error log when it began."""


class Following:
    """The runner of one agent, if one is followed."""

    def __init__(self, places: Paths, log: structlog.stdlib.BoundLogger, cell: Identity = OURS) -> None:
        self._places = places
        self._cell = cell
        self._bot = Below(places.bot, cell)
        self._log = log
        self._tracked: _Tracked | None = None
        self._memory_kills = processes.memory_kills()
        """When they were counted last."""
        self._counted_at = time.monotonic()

    @property
    def runner(self) -> Runner | None:
        return self._tracked.runner if self._tracked else None

    def pidfds(self) -> list[int]:
        return [self._tracked.pidfd] if self._tracked else []

    def start(self, process: subprocess.Popen[bytes], launched: Runner, log_size: int) -> Runner:
        """Follow a process that was just started; gives `launched` with its pid.

        Raises OSError; then it was ended, as nobody could follow it."""
        try:
            started = processes.start_time(process.pid) or 0.0
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            processes.ask_group(process.pid, signal.SIGKILL)
            process.wait()
            raise
        runner = replace(launched, pid=process.pid, started=started)
        self._tracked = _Tracked(runner, pidfd, process, log_size)
        return runner

    def find(self, file: WatcherFile) -> Runner | None:
        """The runner that an earlier watcher remembered, if it lives. Raises OSError."""
        pid, started = file.runner_pid, file.runner_started
        if not processes.is_alive(pid, started):
            # Killed between starting a runner and noting its pid: its boot id was noted before.
            with self._cell.acting():  # its environment is for its own user's eyes
                pid, started = processes.find_runner(file.boot_id) or (0, 0.0)
        if not pid:
            return None
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if not processes.is_alive(pid, started):  # the pid was another's before it was held
            os.close(pidfd)
            return None
        runner = Runner(
            file.boot_id, file.branch, file.commit, pid, started, Level(file.level), file.version, file.launched_for
        )
        self._tracked = _Tracked(runner, pidfd, None, 0)
        return runner

    def was_launched(self, file: WatcherFile, found: Runner | None) -> bool:
        """An earlier watcher recorded the attempt and not its process, and the process was started."""
        was_attempted = bool(file.boot_id) and not file.runner_pid
        return was_attempted and bool(found or self._boot_words(file.boot_id, file.branch, file.commit))

    def has_served(self, runner: Runner) -> bool:
        return boot_log.SUCCESS in self._boot_words(runner.boot_id, runner.branch, runner.commit)

    def _boot_words(self, boot_id: str, branch: str, commit: str) -> dict[str, BootLine]:
        return boot_files.boot_words(self._bot, self._places.checkout(branch), boot_id, branch, commit)

    def death(self, at: float) -> Died | None:
        """How the runner ended; reported once, after which it is no longer tracked."""
        tracked = self._tracked
        is_over = tracked is not None and children.is_over(tracked.pidfd)
        before = self._memory_kills
        if is_over or at - self._counted_at >= COUNT_SECONDS:
            self._memory_kills, self._counted_at = processes.memory_kills(), at
        if tracked is None or not is_over:
            return None
        how, outside = "exit status unknown (it outlived a watcher)", True
        if tracked.process:
            code = tracked.process.wait()
            how, outside = processes.how_it_ended(code), code in processes.FROM_OUTSIDE
            if code == -signal.SIGKILL and self._memory_kills > before:
                how, outside = f"{how}, as memory ran out", False
        self._let_go(tracked)
        runner = tracked.runner
        words = self._boot_words(runner.boot_id, runner.branch, runner.commit)
        said = words.get(boot_log.FAILED)
        if said:
            how += f", it said: {brief(said.details.get('reason', 'no reason'))}"
        # An orderly end needs no explanation, and its log would only bury that of others.
        last_words = ""
        if how != processes.how_it_ended(0):
            checkout = self._places.checkout(runner.branch)
            last_words = boot_files.last_words(self._bot, checkout, tracked.log_size)
        self._log.info(
            "runner.died",
            branch=runner.branch,
            commit=runner.commit,
            boot_id=runner.boot_id,
            how=how,
            last_words=last_words,
        )
        return Died(runner.boot_id, how, last_words, served=boot_log.SUCCESS in words, outside=outside)

    def missing(self) -> Died | None:
        """The check by the process table (seed 001). The pidfd holds the pid, so the process that has it is the
        runner; its start time would move with the clock."""
        tracked = self._tracked
        if tracked is None or processes.start_time(tracked.runner.pid) is not None:
            return None
        self._log.warning("runner.missing", pid=tracked.runner.pid)
        self._let_go(tracked)
        return Died(tracked.runner.boot_id, "no such process at the periodic check", outside=True)

    def ask_group(self, runner: Runner, number: signal.Signals) -> None:
        """Signal the runner's process group while it still exists; its pid may be reused afterwards."""
        tracked = self._tracked
        if tracked and tracked.runner.boot_id == runner.boot_id and not children.is_over(tracked.pidfd):
            processes.ask_group(runner.pid, number)

    def _let_go(self, tracked: _Tracked) -> None:
        os.close(tracked.pidfd)
        self._tracked = None


def brief(words: object) -> str:
    """Cut to what fits in a report and in an environment variable; an agent can produce very long errors."""
    text = str(words).replace("\0", "?")
    return redacted_and_cut(text, BRIEF_CHARS)
