"""The proof that the seal holds, made again and again. What runs may keep it from being made: so with a runner alive a
proof that fails is the runner's failure first, and only with nothing of the cell's alive is it the seal's."""

from __future__ import annotations

import structlog

from infra.keep.supervision.states import Event, SealBroken, SealUnproved
from infra.keep.supervision.zones import Zones
from infra.shared.active import Runner


class SealWatch:
    """Of one agent."""

    def __init__(self, zones: Zones, log: structlog.stdlib.BoundLogger) -> None:
        self._proof = zones.proof
        self._seconds = zones.proof_seconds
        self._log = log
        self.due = 0.0

    def look(self, at: float, runner: Runner | None) -> list[Event]:
        """Prove it if it is time."""
        if at < self.due:
            return []
        self.due = at + self._seconds
        if runner is None:
            return self.broken()
        why = self._proof()
        if why:
            self._log.error("seal.unproved", reason=why, pid=runner.pid)
        return [SealUnproved(runner.boot_id, why)] if why else []

    def broken(self) -> list[Event]:
        """Whether it does not hold, with nothing of the cell's alive."""
        why = self._proof()
        if why:
            self._log.critical("seal.broken", reason=why)
        return [SealBroken(why)] if why else []
