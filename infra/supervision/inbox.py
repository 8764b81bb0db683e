"""Signal files, taken out of the cell's hands: claimed by rename, read without following or blocking, checked.

The claimed file stays until the watcher has remembered the request, so a crash in between repeats the claim
and the file's identity tells that it is the same one."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from infra.contract.signals import MAX_BYTES, SignalName, read_signal
from infra.contract.watcher_file import Request

ORDER = (SignalName.ROLLBACK, SignalName.BOOTSTRAP)
"""Rollback beats bootstrap, so it is looked at first."""


class Claimed(NamedTuple):
    path: str
    """Of the claimed file; `forget` it once the outcome is remembered."""
    request: Request | None
    refusal: str
    """Why it is no request; empty when it is one."""


def claim(directory: str) -> list[Claimed]:
    """Every signal that lies there, also those that a killed watcher had claimed. Raises OSError."""
    found = []
    for name in ORDER:
        claimed = f"{directory}/.claimed-{name.value}"
        if not os.path.lexists(claimed):
            try:
                os.rename(f"{directory}/{name.value}", claimed)
            except FileNotFoundError:
                continue
        found.append(_read(name, claimed))
    return found


def forget(claimed: Claimed) -> None:
    """Delete a claimed file; what is no plain file is set aside as `.refused-…` (the newest of each name)."""
    try:
        os.unlink(claimed.path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        aside = claimed.path.replace(".claimed-", ".refused-")
        for attempt in range(100):
            try:
                os.rename(claimed.path, f"{aside}-{attempt}")
                return
            except OSError:  # something stands there already: take the next number
                continue


def _read(name: SignalName, path: str) -> Claimed:
    try:
        # O_NONBLOCK: opening a FIFO must not wait for a writer. O_NOFOLLOW: a link names somebody else's file.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return Claimed(path, None, f"the {name.value} signal cannot be read ({error.strerror}); write a plain file")
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Claimed(path, None, f"the {name.value} signal is not a regular file; write a plain file")
        content = os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    try:
        signal = read_signal(name, content)
    except ValueError as error:
        return Claimed(path, None, str(error))
    identity = f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}"
    return Claimed(path, Request(name=name.value, target=signal.target, identity=identity), "")
