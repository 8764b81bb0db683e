"""What main's runner does before it sleeps, when there is no work: the standing duties of the mind."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from infra.cell.cell import Cell
from infra.cell.wakes import Wakes
from infra.shared.branches import MAIN

if TYPE_CHECKING:
    from infra.cell.mind.duties import Maintenance

QUIET_SECONDS = 3.0
"""Before duties begin. A directive that follows a report at once, as in a conversation, does not wait for one."""


class IdleTime:
    """The idle time of one runner's life."""

    def __init__(self, context: Cell, wakes: Wakes, quiet_seconds: float = QUIET_SECONDS) -> None:
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
        return not self._maintain(ticked)

    def _is_quiet(self) -> bool:
        until = time.time() + self._quiet_seconds
        return not self._wakes.sleep(until)

    def _maintain(self, ticked: bool) -> bool:
        from infra.cell.mind.duties import Maintenance  # an agent without a mind pays nothing for it
        from infra.cell.runner.mind import mind_context

        context = self._context
        if self._maintenance is None:
            self._maintenance = Maintenance(context.heartbeat.beat)
        try:
            mind = mind_context(context)
            if self._maintenance.due(mind) and not self._is_quiet():
                return False
            return self._maintenance.tend(mind, ticked, self._wakes.moved)
        except Exception as error:  # the runner's work is not to end for it
            context.log.error("mind.maintenance_failed", exc_info=error)
            return True
