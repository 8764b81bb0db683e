"""The runner's status file: what it is doing, for people. Best effort: no work ends because it cannot be written."""

from __future__ import annotations

import time
from typing import Any

from infra.cell.runner.log import Log
from infra.shared.clock import timestamp
from infra.shared.status_file import LEAVING, SLEEPING, WORKING, RunnerStatus, write_status

STEP_SECONDS = 1.0
"""Steps are written at most this often: each write waits for the disk."""


class StatusFile:
    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._status = RunnerStatus(SLEEPING, timestamp(time.time()))
        self._written_since = 0.0

    def show(self, doing: str, **facts: Any) -> None:
        """One of the words of `status_file`, and the facts that belong to it."""
        lasting = {name: getattr(self._status, name) for name in ("last_error", "services")}
        self._write(RunnerStatus(doing, timestamp(time.time()), **(lasting | facts)))

    def wait(self, doing: str, until: str) -> None:
        """What is under way waits."""
        self._write(self._status._replace(doing=doing, until=until))

    def go_on(self) -> None:
        """It waits no more."""
        self._write(self._status._replace(doing=WORKING, until=""))

    def step(self, steps: int) -> None:
        if time.monotonic() - self._written_since >= STEP_SECONDS:
            self._write(self._status._replace(steps=steps))

    def leaving(self) -> None:
        self._write(self._status._replace(doing=LEAVING, since=timestamp(time.time()), until=""))

    @property
    def last_error(self) -> str:
        return self._status.last_error

    def note_error(self, error: str) -> None:
        """Shown from the next write on; empty for none."""
        self._status = self._status._replace(last_error=error)

    def _write(self, status: RunnerStatus) -> None:
        self._status = status
        self._written_since = time.monotonic()
        try:
            write_status(self._path, status)
        except OSError as error:
            self._log.warning("status.not_written", path=self._path, error=str(error))
