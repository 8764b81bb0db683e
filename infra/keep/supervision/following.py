"""Tracks the runner by pidfd, from its start to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from infra.keep import boot_files
from infra.keep.services import children, processes
from infra.keep.services.hearts import Heartbeat, overdue
from infra.keep.supervision.decide.events import Died, Event, MustEnd, Served
from infra.keep.watcher_file import Phase, Runner, State
from infra.shared import boot
from infra.shared.boot import BootLine
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_and_cut

BRIEF_CHARS = 1000
COUNT_SECONDS = 5.0
"""Between two looks at how often memory ran out: a runner that is killed so soon after was killed for that."""


class _Tracked(NamedTuple):
    """What it takes to follow the runner that was started."""

    runner: Runner
    pidfd: int
    process: subprocess.Popen[bytes]
    log_size: int
    """Size of its error log when it began."""
    heart: Heartbeat


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

    def start(self, process: subprocess.Popen[bytes], launched: Runner, log_size: int, heart: Heartbeat) -> Runner:
        """Follow a process that was just started; gives `launched` with its pid.

        Raises OSError; then it was ended, as nobody could follow it."""
        heart.started()
        try:
            pidfd = children.pidfd_of(process)
        except OSError:
            heart.close()
            raise
        runner = replace(launched, pid=process.pid)
        self._tracked = _Tracked(runner, pidfd, process, log_size, heart)
        return runner

    def health(self, state: State, at: float) -> list[Event]:
        """SUCCESS in its log ends its boot; a promise that it broke ends the runner."""
        tracked = self._tracked
        if tracked is None or not state.may_fail():
            return []
        boot_id = tracked.runner.boot_id
        if state.phase is Phase.BOOTING and boot.SUCCESS in self._boot_words(tracked.runner):
            return [Served(boot_id)]
        why = overdue(tracked.heart.listen(at), at)
        return [MustEnd(boot_id, why)] if why else []

    def _boot_words(self, runner: Runner) -> dict[str, BootLine]:
        checkout = self._places.checkout(runner.branch)
        return boot_files.boot_words(self._bot, checkout, runner.boot_id, runner.branch, runner.commit)

    def death(self, at: float) -> Died | None:
        """How the runner ended; reported once, after which it is no longer tracked."""
        tracked = self._tracked
        is_over = tracked is not None and children.is_over(tracked.pidfd)
        before = self._memory_kills
        if is_over or at - self._counted_at >= COUNT_SECONDS:
            self._memory_kills, self._counted_at = processes.memory_kills(), at
        if tracked is None or not is_over:
            return None
        code = tracked.process.wait()
        how, outside = processes.how_it_ended(code), code in processes.FROM_OUTSIDE
        if code == -signal.SIGKILL and self._memory_kills > before:
            how, outside = f"{how}, as memory ran out", False
        self._let_go(tracked)
        runner = tracked.runner
        words = self._boot_words(runner)
        said = words.get(boot.FAILED)
        if said:
            how += f", it said: {brief(said.details.get('reason', 'no reason'))}"
        # An orderly end needs no explanation, and its log would only bury that of others.
        last_words = ""
        if code or said:
            checkout = self._places.checkout(runner.branch)
            last_words = boot_files.last_words(self._bot, checkout, tracked.log_size)
        self._log.info("runner.died", **runner.facts, how=how, last_words=last_words)
        return Died(runner.boot_id, how, last_words, served=boot.SUCCESS in words, from_outside=outside)

    def ask_group(self, runner: Runner, number: signal.Signals) -> None:
        """Signal the runner's process group while it still exists; its pid may be reused afterwards."""
        tracked = self._tracked
        if tracked and tracked.runner.boot_id == runner.boot_id and not children.is_over(tracked.pidfd):
            processes.ask_group(runner.pid, number)

    def _let_go(self, tracked: _Tracked) -> None:
        os.close(tracked.pidfd)
        tracked.heart.close()
        self._tracked = None


def brief(words: object) -> str:
    """Cut to what fits in a report and in an environment variable; an agent can produce very long errors."""
    text = str(words).replace("\0", "?")
    return redacted_and_cut(text, BRIEF_CHARS)
