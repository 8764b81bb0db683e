"""The standing duties of the mind, for when no directive and no task is to be done."""

from __future__ import annotations

import os
import time

from infra.cell.cell import Cell
from infra.cell.mind.duties import Maintenance
from infra.cell.wakes import Wakes

QUIET_SECONDS = 3.0
"""Before duties begin. A directive that follows a report at once, as in a conversation, does not wait for one."""


class Duties:
    def __init__(self, cell: Cell, wakes: Wakes) -> None:
        self._cell, self._wakes = cell, wakes
        self._maintenance = Maintenance(cell.heartbeat.beat)
        self._tick: float | None = None

    def done(self) -> bool:
        """Do what is due, after a while of quiet; False when main moved meanwhile, so that it is to be looked at.
        Raises Interrupted."""
        cell = self._cell
        if cell.boot.is_safe_mode or not os.path.isdir(f"{cell.boot.places.mind}/.git"):
            return True
        tick = time.time() // cell.boot.limits.work_seconds
        ticked, self._tick = self._tick not in (None, tick), tick
        try:
            if self._maintenance.due(cell) and not self._wakes.is_quiet(QUIET_SECONDS):
                return False
            return self._maintenance.tend(cell, ticked, self._wakes.moved)
        except Exception as error:  # the runner's work is not to end for it
            cell.log.error("mind.maintenance_failed", exc_info=error)
            return True
