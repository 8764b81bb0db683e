"""What main's runner does before it sleeps, when there is no work: the standing duties of the mind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from infra.cell.runner.context import RunnerContext
from infra.cell.runner.job_run import tell_work
from infra.cell.runner.wakes import Wakes
from infra.shared.branches import MAIN
from infra.shared.mind.duties import DAILY_SUMMARY, DEPRECATION_SCAN, WEEKLY_REVIEW
from infra.shared.requests import NO_TASK

if TYPE_CHECKING:
    from infra.cell.mind.maintain import Maintenance

QUIET_SECONDS = 3.0
"""Before duties begin. A directive that follows a report at once, as in a conversation, does not wait for one."""


class IdleTime:
    """The idle time of one runner's life."""

    def __init__(self, context: RunnerContext, wakes: Wakes, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._context = context
        self._wakes = wakes
        self._quiet_seconds = quiet_seconds
        self._maintenance: Maintenance | None = None

    def use(self, ticked: bool) -> bool:
        """Do what is due after a while of quiet; whether main moved meanwhile, so that it is to be looked at. Raises
        Interrupted."""
        context = self._context
        if context.boot.branch != MAIN or context.boot.is_safe_mode:
            return False
        if not os.path.isdir(f"{context.boot.places.mind}/.git"):
            return False
        tell_work(context, NO_TASK)  # a run on a question that was cut off is not gone on with
        return not self._maintain(ticked, is_quiet=self._is_quiet)

    def _is_quiet(self) -> bool:
        until = time.time() + self._quiet_seconds
        self._context.heartbeat.beat("waiting for quiet", self._quiet_seconds)
        return not self._wakes.sleep(until)

    def make_up(self) -> None:
        """What waited while the work before had read the web, before new work begins that may read it as well: the
        summaries, and what was noted into memory. Raises Interrupted."""
        if self._maintenance is not None and self._maintenance.is_put_off:
            self._maintain(False, (DAILY_SUMMARY, DEPRECATION_SCAN, WEEKLY_REVIEW))

    def _maintain(self, ticked: bool, only: tuple[str, ...] = (), is_quiet: Callable[[], bool] | None = None) -> bool:
        from infra.cell.mind.maintain import Maintenance  # an agent without a mind pays nothing for it
        from infra.cell.runner.job_run import say_work
        from infra.cell.runner.mind import mind_context

        context = self._context
        if self._maintenance is None:
            self._maintenance = Maintenance(context.heartbeat.beat)
        try:
            mind = mind_context(context)
            if is_quiet and self._maintenance.is_due(mind) and not is_quiet():
                return False
            has_work = (lambda: False) if only else self._wakes.moved
            is_through = self._maintenance.tend(mind, ticked, has_work, only)
            if self._maintenance.is_put_off and not only and not say_work(context, NO_TASK):
                # Work that had read the web was over, and this runner began after it: no other work need come first.
                is_through = self._maintenance.tend(mind_context(context), ticked, has_work, only)
            return is_through
        except Exception as error:  # the runner's work is not to end for it
            context.log.error("mind.maintenance_failed", exc_info=error)
            return True
