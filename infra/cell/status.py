"""What a runner reports about itself, in a file of its checkout: shown by `minifram status`, never used to judge it.
No work ends because it cannot be written, and none waits for the disk."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from infra.shared.clock import timestamp
from infra.shared.door import encoded
from infra.shared.redacted_file import RedactedFile

if TYPE_CHECKING:
    from infra.shared.log import Log

BOOTING, VALIDATING, WORKING, LEAVING = "booting", "validating", "working", "leaving"
WAITING = "waiting"
"""For a model that does not answer, in the middle of a run."""


class RunnerStatus(msgspec.Struct, frozen=True):
    doing: str
    """One of the words above, or `paths.SLEEPING`."""
    since: str
    """Wall time, as `clock.timestamp` writes it."""
    about: str = ""
    """First line of the directive or task in work, or the branch of the hop; empty when there is none."""
    steps: int = 0
    until: str = ""
    """When sleeping or waiting: the next tick or try at the latest."""
    last_error: str = ""
    waits: str = ""
    """For what open directives wait; empty when they do not."""
    services: str = ""
    """What the agent keeps running, in words; empty for nothing."""
    state: str = ""
    """Of the run (`run_states.RunState`); empty when there is none."""


def write_status(path: str, status: RunnerStatus) -> None:
    """Raises OSError."""
    RedactedFile(path).replace(encoded(status), durable=False)


class StatusFile:
    """The main thread and those of the services write it."""

    def __init__(self, path: str, log: Log) -> None:
        self._path, self._log, self._lock = path, log, threading.Lock()
        self.status = RunnerStatus(BOOTING, timestamp(time.time()))

    def show(self, doing: str, **facts: Any) -> None:
        """Something else is done now: of what was known, the last error and the services stay."""
        ended = {"about": "", "steps": 0, "until": "", "waits": "", "state": ""}
        self.change(doing=doing, since=timestamp(time.time()), **(ended | facts))

    def change(self, **facts: Any) -> None:
        """The same is done, and these facts of it are others."""
        with self._lock:
            self.status = replace(self.status, **facts)
            try:
                write_status(self._path, self.status)
            except OSError as error:
                self._log.warning("status.not_written", path=self._path, error=str(error))
