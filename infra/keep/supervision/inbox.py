"""Signal files: claimed by rename out of the cell's reach, read without following links or blocking, and checked.

A claimed file is kept until the watcher has recorded its decision. After a crash in between it is claimed again, and
its identity shows that it is the same file."""

from __future__ import annotations

import contextlib
import os
import stat
import time
import zlib
from typing import NamedTuple

from infra.keep.supervision import unchanged
from infra.keep.watcher_file import SignalRequest
from infra.shared.identity import OURS, Identity
from infra.shared.safe_files import Below
from infra.shared.safe_steps import NotPlain
from infra.shared.signals import MAX_BYTES, SignalName, read_signal

ORDER = (SignalName.ROLLBACK, SignalName.BOOTSTRAP)
"""Rollback beats bootstrap, so it is looked at first."""
AT_ONCE, ONE_EACH_SECONDS = 60, 2.0
"""A burst of this many signals is handed out at once, then one per interval: each may cost a report or a launch."""
_CLAIMED = ".claimed-"
STRAYS, SWEPT_AT_ONCE = 100, 1000
"""How many other files may lie there, and how many are removed per look."""
STRAY_SECONDS = 2.0
"""Younger files may still be being written before a rename."""
NAMES = frozenset(name.value for name in SignalName)
SETTLED_SECONDS = 1.0
"""A file with no newline at its end may still be being written until it has not changed for so long; then it counts."""


class Claimed(NamedTuple):
    path: str
    """Of the claimed file; `forget` it once the outcome is remembered."""
    request: SignalRequest | None
    refusal: str
    """Why it is not a request; empty when it is one."""
    identity: str
    """Names this very file."""


class Ration:
    """A rate limit: a burst, then one per interval. Times are monotonic."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = float(most), seconds
        self._left, self._at = float(most), 0.0

    def is_left(self, at: float) -> bool:
        self._left = min(self._most, self._left + max(0.0, at - self._at) / self._seconds)
        self._at = at
        return self._left >= 1.0

    def take(self) -> None:
        self._left -= 1.0


class Inbox:
    """The signal directory over time: each file is handed out once."""

    def __init__(
        self, directory: str, cell: Identity = OURS, settled_seconds: float = unchanged.SETTLED_SECONDS
    ) -> None:
        self._directory = directory
        self._files = Below(os.path.dirname(directory), cell)
        self._handed_out: dict[str, str] = {}
        self._ration = Ration(AT_ONCE, ONE_EACH_SECONDS)
        self._next_sweep = 0.0
        self._unchanged = unchanged.Unchanged(directory, settled_seconds)
        self.is_flooded = False
        """At the last look there was more than is looked at: signals wait, of which the last one counts."""

    def make(self) -> str:
        """Create the directory; returns where anything else in its place was moved to. Raises OSError."""
        return self._files.make_directory(self._directory)

    def take(self, wall: float, at: float) -> list[Claimed]:
        """Signals that were not handed out before. Raises OSError. `wall` is the clock's time, `at` is monotonic.

        One that could not be deleted stays claimed: it is not handed out again, and its deletion is tried again."""
        if self._unchanged.is_it():
            return []
        self.make()
        self.is_flooded = self._sweep(wall, at)
        if not self._ration.is_left(at):
            self.is_flooded |= any(self._files.status(f"{self._directory}/{name}") for name in NAMES)
            return []
        found = []
        for claimed in claim(self._files, self._directory, wall):
            if self._handed_out.get(claimed.path) == claimed.identity:
                self.forget(claimed)
                continue
            self._handed_out[claimed.path] = claimed.identity
            self._ration.take()
            found.append(claimed)
        if not any(map(_is_of_signals, self._files.names(self._directory, STRAYS))) and not self.is_flooded:
            self._unchanged.looked()
        return found

    def _sweep(self, wall: float, at: float) -> bool:
        """Remove files that are not signals when there are many, some at each look. True when something was removed."""
        if at < self._next_sweep:
            return self.is_flooded
        self._next_sweep = at + 1.0
        names = self._files.names(self._directory, SWEPT_AT_ONCE)
        strays = [name for name in names if not _is_of_signals(name)]
        return len(strays) > STRAYS and any([self._is_removed(f"{self._directory}/{name}", wall) for name in strays])

    def _is_removed(self, path: str, wall: float) -> bool:
        """A directory that is not empty stays: it is never a signal, and `forget` sets few of them aside."""
        status = self._files.status(path)
        if status is None or abs(wall - status.st_mtime) < STRAY_SECONDS:
            return False
        return self._files.remove_empty(path) if stat.S_ISDIR(status.st_mode) else self._files.unlink(path)

    def forget(self, claimed: Claimed) -> bool:
        """Delete a claimed file. False when it is still there."""
        return forget(self._files, claimed)


def _is_of_signals(name: str) -> bool:
    return name in NAMES or name.startswith(_CLAIMED)


def claim(files: Below, directory: str, wall: float) -> list[Claimed]:
    """Every signal that lies there whole, also those that a killed watcher had claimed. Raises OSError."""
    found = []
    for name in ORDER:
        claimed = f"{directory}/{_CLAIMED}{name.value}"
        if not files.status(claimed):
            try:
                files.rename(f"{directory}/{name.value}", f"{_CLAIMED}{name.value}")
            except FileNotFoundError:
                continue
        read = _read(files, name, claimed, wall)
        if read:
            found.append(read)
    return found


def forget(files: Below, claimed: Claimed) -> bool:
    """Delete a claimed file; a directory is set aside as `.refused-…`. False when it is still there."""
    if files.unlink(claimed.path):
        return True
    name = os.path.basename(claimed.path).replace(_CLAIMED, ".refused-")
    with contextlib.suppress(OSError):
        files.rename(claimed.path, f"{name}-{time.time_ns()}")
    return files.status(claimed.path) is None


def _read(files: Below, name: SignalName, path: str, wall: float) -> Claimed | None:
    """None for one that may still be being written: a writer in place goes on in the claimed file."""
    status = files.status(path)
    if status is None:
        return None
    # Not the device: its number may be another after a power cut, and this one come back with the file.
    identity = f"{status.st_ino}:{status.st_mtime_ns}"
    try:
        with files.opened(path) as file:
            content = file.read(MAX_BYTES + 1)
    except NotPlain:
        return Claimed(path, None, f"the {name.value} signal is not a regular file; write a plain file", identity)
    except OSError as error:
        why = f"the {name.value} signal cannot be read ({error.strerror}); write a plain file"
        return Claimed(path, None, why, identity)
    # Another file may have this number within a tick of the clock.
    identity = f"{identity}:{zlib.crc32(content):08x}"
    settled = content.endswith(b"\n") or len(content) > MAX_BYTES
    if not settled and 0.0 <= wall - status.st_mtime < SETTLED_SECONDS:
        return None
    try:
        signal = read_signal(name, content)
    except ValueError as error:
        return Claimed(path, None, str(error), identity)
    return Claimed(path, SignalRequest(name=name.value, target=signal.target, identity=identity), "", identity)
