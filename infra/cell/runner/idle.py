"""What main's runner does before it sleeps, when there is no work: the standing duties of the mind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from infra.cell.runner.context import RunnerContext
from infra.cell.runner.wakes import Wakes
from infra.shared.branches import MAIN
from infra.shared.mind.duties import DAILY_SUMMARY, DEPRECATION_SCAN, WEEKLY_REVIEW

if TYPE_CHECKING:
    from infra.cell.mind.maintain import Maintenance


class IdleTime:
    """The idle time of one runner's life."""

    def __init__(self, context: RunnerContext, wakes: Wakes) -> None:
        self._context = context
        self._wakes = wakes
        self._maintenance: Maintenance | None = None

    def use(self, ticked: bool) -> bool:
        """Do what is due; whether main moved meanwhile, so that it is to be looked at. Raises Interrupted."""
        context = self._context
        if context.boot.branch != MAIN or context.boot.is_safe_mode:
            return False
        if not os.path.isdir(f"{context.boot.places.mind}/.git"):
            return False
        return not self._maintain(ticked)

    def make_up(self) -> None:
        """What waited while the work before had read the web, before new work begins that may read it as well: the
        summaries, and what was noted into memory. Raises Interrupted."""
        if self._maintenance is not None and self._maintenance.is_put_off:
            self._maintain(False, (DAILY_SUMMARY, DEPRECATION_SCAN, WEEKLY_REVIEW))

    def _maintain(self, ticked: bool, only: tuple[str, ...] = ()) -> bool:
        from infra.cell.mind.maintain import Maintenance  # an agent without a mind pays nothing for it
        from infra.cell.runner.mind import mind_context

        context = self._context
        if self._maintenance is None:
            self._maintenance = Maintenance(context.heartbeat.beat)
        try:
            has_work = (lambda: False) if only else self._wakes.moved
            return self._maintenance.tend(mind_context(context), ticked, has_work, only)
        except Exception as error:  # the runner's work is not to end for it
            context.log.error("mind.maintenance_failed", exc_info=error)
            return True
