"""Checks that the active runner is healthy: through both doors at boot, and then repeatedly.

SUCCESS in the boot log only means that the runner may be probed. `probe` judges an answer, `decide` what follows."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import structlog

from infra.keep.active import Runner
from infra.keep.services import processes
from infra.keep.services.elapsed import Elapsed
from infra.keep.supervision import probe
from infra.keep.supervision.decide.events import Event, MustEnd, Probed
from infra.keep.supervision.decide.state import Phase, State
from infra.keep.supervision.following import Following
from infra.keep.supervision.probe import Probe
from infra.shared.paths import Paths
from infra.shared.repository.git import GitError
from infra.shared.secret_shapes import redacted_and_cut

BOOT_AGAIN_SECONDS = 0.25
"""Before probing again after a bad answer during a boot."""


class Pace(NamedTuple):
    """How often a runner that serves is asked, in seconds."""

    beat: float = 30.0
    """Between two probes of a healthy runner."""
    doors: float = 600.0
    """How often a probe also uses the doors."""
    again: float = 10.0
    """After a bad answer: long enough for a busy machine to recover."""
    patience: float = 15.0
    """For an answer; a busy machine is slow."""
    stopped: float = 10.0
    """How long it may be stopped by SIGSTOP: a person who stops it to look at it resumes it soon."""


class Health:
    """Questions to the runners of one agent, one at a time."""

    def __init__(
        self,
        places: Paths,
        following: Following,
        longest_promise: float,
        pace: Pace,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._places = places
        self._pace = pace
        self._following = following
        self._longest = longest_promise
        self._log = log
        self._probe: Probe | None = None
        self._next = 0.0
        self._next_doors = 0.0
        self._stopped = Elapsed()
        self._held = 0.0
        self._held_until = 0.0
        self.trouble = ""
        """Why the keep itself could not probe; empty when it could."""

    def fds(self) -> list[int]:
        return self._probe.fds() if self._probe else []

    def due(self) -> float:
        """When to look again even if nothing happens."""
        return self._probe.deadline if self._probe else self._next or inf

    def was_held(self, at: float, seconds: float) -> None:
        """An examination stopped the runner for that long: its heartbeat may be late by as much, and the next probe is
        postponed until it had a chance to send one."""
        if not seconds:
            return
        self._end()
        self._next = at + self._pace.again
        self._held = seconds + (self._held if at < self._held_until else 0.0)
        self._held_until = at + self._longest

    def look(self, state: State, at: float) -> list[Event]:
        """The result of the current probe, if any; starts the next one when due. Never waits."""
        runner = self._following.runner
        if self._probe and (runner is None or self._probe.runner.boot_id != runner.boot_id):
            self._end()
        if runner is None:
            self.trouble = ""  # that was about one who is gone
            self._stopped = Elapsed()
        if runner is None or not state.may_fail():
            self._end()
            return []
        if self._stopped.looks(at, processes.is_stopped(runner.pid)) > self._pace.stopped:
            return [MustEnd(runner.boot_id, f"it was stopped (SIGSTOP) for over {self._pace.stopped:g} s")]
        events: list[Event] = []
        if self._probe is None and at >= self._next:
            events = self._ask(runner, state, at)
        return events + (self._judged(self._probe, state, at) if self._probe else [])

    def _ask(self, runner: Runner, state: State, at: float) -> list[Event]:
        booting = state.phase is Phase.BOOTING
        if booting and not self._following.has_served(runner):
            return []
        doors = booting or at >= self._next_doors
        try:
            asked = self._places if doors else None
            self._probe = probe.begin(runner, at, asked, None if booting else self._pace.patience)
        except (GitError, OSError) as error:
            self.trouble = f"the runner could not be asked: {error}"
            self._log.error("probe.not_put", reason=redacted_and_cut(str(error), 1000))
            self._next = at + self._pace.again
            return []
        self.trouble = ""
        if doors:
            self._next_doors = at + self._pace.doors
        # What is said of it should its time be up before it answers.
        first = booting and not state.unwell
        return [Probed(runner.boot_id, "it said SUCCESS, and has not answered since")] if first else []

    def _judged(self, asked: Probe, state: State, at: float) -> list[Event]:
        reply = asked.look(at)
        if reply is None:
            return []
        self._end()
        booting, boot_id = state.phase is Phase.BOOTING, asked.runner.boot_id
        held = self._held if at < self._held_until else 0.0
        why = probe.judge_runner(asked.runner, reply, asked.challenge, self._longest, held)
        doors = "" if why else probe.judge_doors(reply, asked.challenge)
        if why or doors:
            self._log.warning("runner.unwell", boot_id=boot_id, why=why or doors)
        if booting:
            self._next = at + (BOOT_AGAIN_SECONDS if why or doors else self._pace.beat)
            return [Probed(boot_id, why or doors)]
        self._next = at + (self._pace.again if why else self._pace.beat)
        return [Probed(boot_id, why)] if why or state.unwell else []

    def _end(self) -> None:
        if self._probe:
            self._probe.close()
            self._probe = None
        self._next = 0.0
