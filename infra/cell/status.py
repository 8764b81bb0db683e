"""The runner's status file: what it is doing, for people. Best effort: no work ends because it cannot be written, and
no write waits for the disk. The main thread and those of the services write it."""

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


class StatusFile:
    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._status = RunnerStatus(SLEEPING, timestamp(time.time()))
        self._lock = threading.Lock()

    def show(self, doing: str, about: str = "", until: str = "", waits: str = "") -> None:
        """One of the words of `status_file`, and the facts that belong to it."""
        now = timestamp(time.time())
        self._change(doing=doing, since=now, about=about, until=until, waits=waits, steps=0, state="")

    def wait(self, doing: str, until: str) -> None:
        """What is under way waits."""
        self._change(doing=doing, until=until)

    def go_on(self) -> None:
        """It waits no more."""
        self._change(doing=WORKING, until="")

    def enter(self, state: RunState, steps: int) -> None:
        """The run is in this state, in this step."""
        self._change(state=state.value, steps=steps)

    def leaving(self) -> None:
        self._change(doing=LEAVING, since=timestamp(time.time()), until="")

    def services(self, words: str) -> None:
        """How they are."""
        self._change(services=words)

    @property
    def last_error(self) -> str:
        return self._status.last_error

    def note_error(self, error: str) -> None:
        """Empty for none."""
        self._change(last_error=error)

    def _change(self, **facts: Any) -> None:
        with self._lock:
            self._status = replace(self._status, **facts)
            try:
                write_status(self._path, self._status)
            except OSError as error:
                self._log.warning("status.not_written", path=self._path, error=str(error))
