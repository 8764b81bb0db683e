"""The runner's status file: what it is doing, for people. Best effort: no work ends because it cannot be written. The
main thread and that of the services write it."""

from __future__ import annotations

import threading
import time
from typing import Any

from msgspec.structs import replace

from infra.cell.log import Log
from infra.cell.run_states import RunState
from infra.cell.status_file import LEAVING, WORKING, RunnerStatus, write_status
from infra.shared.clock import timestamp
from infra.shared.paths import SLEEPING

STEP_SECONDS = 1.0
"""States of a run are written at most this often: each write waits for the disk."""


class StatusFile:
    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._status = RunnerStatus(SLEEPING, timestamp(time.time()))
        self._written_since = 0.0
        self._lock = threading.RLock()
        self._late: threading.Timer | None = None
        """Writes what came too soon after the last write."""

    def show(self, doing: str, **facts: Any) -> None:
        """One of the words of `status_file`, and the facts that belong to it."""
        with self._lock:
            lasting = {name: getattr(self._status, name) for name in ("last_error", "services")}
            self._write(RunnerStatus(doing, timestamp(time.time()), **(lasting | facts)))

    def wait(self, doing: str, until: str) -> None:
        """What is under way waits."""
        self._change(doing=doing, until=until)

    def go_on(self) -> None:
        """It waits no more."""
        self._change(doing=WORKING, until="")

    def enter(self, state: RunState, steps: int) -> None:
        """The run is in this state, in this step. What is not written now is written soon."""
        with self._lock:
            self._status = replace(self._status, state=state.value, steps=steps)
            left = self._written_since + STEP_SECONDS - time.monotonic()
            if left <= 0:
                self._write(self._status)
            elif self._late is None:
                self._late = threading.Timer(left, self._write_late)
                self._late.daemon = True
                self._late.start()

    def _write_late(self) -> None:
        with self._lock:
            if self._late:
                self._write(self._status)

    def leaving(self) -> None:
        self._change(doing=LEAVING, since=timestamp(time.time()), until="")

    def services(self, words: str) -> None:
        """How they are."""
        self._change(services=words)

    @property
    def last_error(self) -> str:
        return self._status.last_error

    def note_error(self, error: str) -> None:
        """Shown from the next write on; empty for none."""
        with self._lock:
            self._status = replace(self._status, last_error=error)

    def _change(self, **facts: Any) -> None:
        with self._lock:
            self._write(replace(self._status, **facts))

    def _write(self, status: RunnerStatus) -> None:
        self._status = status
        self._written_since = time.monotonic()
        if self._late:
            self._late.cancel()
            self._late = None
        try:
            write_status(self._path, status)
        except OSError as error:
            self._log.warning("status.not_written", path=self._path, error=str(error))
