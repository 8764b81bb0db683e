"""What the runner says it is doing, in logs/life.json. Best effort: no work ends because it cannot be written."""

from __future__ import annotations

import time

from infra.cell.runner.events import Log
from infra.shared.clock import timestamp
from infra.shared.life_file import LEAVING, SLEEPING, VALIDATING, WORKING, Life, write_life

STEP_SECONDS = 1.0
"""Between two steps so long at least: each write waits for the disk."""


class LifeStory:
    """The life file at `path`, and what stands in it now."""

    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._life = Life(SLEEPING, timestamp(time.time()))
        self._written_since = 0.0

    def working(self, unit: str) -> None:
        self._write(Life(WORKING, timestamp(time.time()), unit, last_error=self._life.last_error))

    def validating(self, unit: str) -> None:
        self._write(Life(VALIDATING, timestamp(time.time()), unit))

    def step(self, steps: int) -> None:
        if time.monotonic() - self._written_since >= STEP_SECONDS:
            self._write(self._life._replace(steps=steps))

    def sleeping(self, until: float) -> None:
        now = timestamp(time.time())
        self._write(Life(SLEEPING, now, until=timestamp(until), last_error=self._life.last_error))

    def trouble(self, error: str) -> None:
        self._life = self._life._replace(last_error=error)

    def recovered(self) -> None:
        self._life = self._life._replace(last_error="")

    def leaving(self) -> None:
        self._write(self._life._replace(doing=LEAVING, since=timestamp(time.time()), until=""))

    def _write(self, life: Life) -> None:
        self._life = life
        self._written_since = time.monotonic()
        try:
            write_life(self._path, life)
        except OSError as error:
            self._log.warning("life_file.not_written", path=self._path, error=str(error))
