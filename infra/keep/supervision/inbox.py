"""Signal files: claimed by rename out of the cell's reach, read without following links or blocking, and checked.

A claimed file is kept until the watcher has recorded its decision. After a crash in between it is claimed again, and
its identity shows that it is the same file. What else lies there is never listed."""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from typing import NamedTuple

from infra.keep.watcher_file import Request
from infra.shared.identity import OURS, Identity
from infra.shared.safe_files import Below
from infra.shared.signals import MAX_BYTES, SignalName, read_signal

ORDER = (SignalName.ROLLBACK, SignalName.BOOTSTRAP)
"""A rollback comes before a bootstrap."""
EVERY_SECONDS = 1.0
"""Between two takes that found something: each signal may cost a report or a launch."""
SETTLED_SECONDS = 1.0
"""A file with no newline at its end may still be being written until it has not changed for so long; then it counts."""


class Claimed(NamedTuple):
    path: str
    """Of the claimed file; `forget` it once the outcome is remembered."""
    request: Request | None
    refusal: str
    """Why it is not a request; empty when it is one."""
    identity: str
    """Names this very file."""


class Inbox:
    """The signal directory over time: each file is handed out once."""

    def __init__(self, directory: str, cell: Identity = OURS) -> None:
        self._directory = directory
        self._files = Below(os.path.dirname(directory), cell)
        self._handed_out: dict[str, str] = {}
        self._next = 0.0

    def make(self) -> str:
        """Create the directory; returns where anything else in its place was moved to. Raises OSError."""
        return self._files.make_directory(self._directory)

    def take(self, wall: float, at: float, at_once: bool = False) -> list[Claimed]:
        """Signals that lie there whole and were not handed out before, also those that a killed watcher had claimed.

        One that could not be deleted is not handed out again; its deletion is tried again. `wall` is the time of the
        clock by which files are dated, `at` the watcher's. With `at_once`, a writer has left: what it asked for is not
        to wait. Raises OSError."""
        if at < self._next and not at_once:
            return []
        self.make()
        found = [claimed for name in ORDER if (claimed := self._claim(name, wall))]
        for claimed in found:
            if self._handed_out.get(claimed.path) == claimed.identity:
                self.forget(claimed)
        new = [claimed for claimed in found if self._handed_out.get(claimed.path) != claimed.identity]
        self._handed_out |= {claimed.path: claimed.identity for claimed in new}
        self._next = at + EVERY_SECONDS if new else at
        return new

    def forget(self, claimed: Claimed) -> bool:
        """Delete a claimed file; a directory is set aside as `.refused-…`. False when it is still there."""
        if self._files.unlink(claimed.path):
            return True
        with contextlib.suppress(OSError):
            self._files.rename(claimed.path, f".refused-{time.time_ns()}")
        return self._files.status(claimed.path) is None

    def _claim(self, name: SignalName, wall: float) -> Claimed | None:
        """None for one that is not there, or may still be being written: a writer in place goes on in the claimed
        file."""
        path = f"{self._directory}/.claimed-{name.value}"
        if not self._files.status(path):
            with contextlib.suppress(FileNotFoundError):
                self._files.rename(f"{self._directory}/{name.value}", os.path.basename(path))
        status = self._files.status(path)
        if status is None:
            return None
        # Not the device: its number may be another after a power cut, and this one come back with the file.
        identity = f"{status.st_ino}:{status.st_mtime_ns}"
        try:
            with self._files.opened(path) as file:
                content = file.read(MAX_BYTES + 1)
        except OSError:
            why = f"the {name.value} signal is not a plain file that can be read; write one line of text"
            return Claimed(path, None, why, identity)
        # Another file may have this number within a tick of the clock.
        identity = f"{identity}:{zlib.crc32(content):08x}"
        settled = content.endswith(b"\n") or len(content) > MAX_BYTES
        if not settled and 0.0 <= wall - status.st_mtime < SETTLED_SECONDS:
            return None
        try:
            target = read_signal(name, content).target
        except ValueError as error:
            return Claimed(path, None, str(error), identity)
        return Claimed(path, Request(name=name.value, target=target, identity=identity), "", identity)
