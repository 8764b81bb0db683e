"""The limits at work on one agent: samples are taken and judged; a log is cut, the PM told, or the runner ended."""

from __future__ import annotations

from math import inf

import structlog

from infra.keep.cut_logs import cut_log
from infra.keep.limits.judge import Bounds, Finding, Memory, Remedy, after_cut, judge
from infra.keep.limits.sample import take
from infra.keep.supervision.decide.events import Event, MustEnd, Observed
from infra.keep.watcher_file import Runner
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import Below

TOLD_SECONDS = 86400.0
"""The PM hears of the same thing once a day."""


class LimitWatch:
    """All times are the watcher's clock."""

    def __init__(self, places: Paths, cell: Identity, limits: Bounds, log: structlog.stdlib.BoundLogger) -> None:
        self._places, self._cell, self._limits, self._log = places, cell, limits, log
        self._memory = Memory()
        self.due = inf
        """When the next sample of the same runner is taken."""
        self._told: dict[tuple[str, str], float] = {}

    def look(self, runner: Runner | None, at: float) -> list[Event]:
        """Take a sample of the runner that serves, if it is time to; returns what follows."""
        if runner is None or (runner.boot_id == self._memory.boot_id and at < self.due):
            return []
        self.due = at + self._limits.sample_seconds
        try:
            sample = take(self._places, self._cell, runner.boot_id, runner.branch)
        except OSError as error:
            self._log.error("limits.not_sampled", reason=str(error))
            return []
        self._memory, findings = judge(self._memory, sample, at, self._limits)
        return [event for finding in findings for event in self._meet(finding, runner, at)]

    def _meet(self, finding: Finding, runner: Runner, at: float) -> list[Event]:
        rule, remedy, text, log = finding
        self._log.warning("limit.passed", rule=rule, remedy=remedy.value, text=text)
        if remedy is Remedy.END:
            return [MustEnd(runner.boot_id, f"it exceeded a limit: {text}")]
        if log:
            try:
                cut_log(Below(self._places.bot, self._cell), log.path)
                self._memory = after_cut(self._memory, log)
            except OSError as error:
                self._log.error("log.not_cut", path=log.path, reason=str(error))
        about = rule, log.path if log else ""
        if at - self._told.get(about, -inf) < TOLD_SECONDS:
            return []
        self._told[about] = at
        return [Observed(f"a limit: {rule}", text)]
