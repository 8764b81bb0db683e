"""The record of what the web door was asked: a line of JSON on its stdout, which the watcher keeps in a file.

A line is on the disk before its answer leaves, so whoever has the text is on record (`shared.web`)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading

import msgspec

from infra.shared.web import TraceLine


class Trace:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._is_torn = False
        self.lines = 0

    async def record(self, line: TraceLine) -> None:
        """Raises OSError when it is not on the disk."""
        # Not given up when the caller is: a line is whole or not begun.
        await asyncio.shield(asyncio.to_thread(self.write, line))

    def write(self, line: TraceLine) -> None:
        """Raises OSError, as `record`."""
        whole = msgspec.json.encode(line) + b"\n"
        with self._lock:
            # Who bounds the file copies and empties it: under the same lock, or a line between the two would be lost.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                self._append(whole)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.fdatasync(self._descriptor)
            self.lines += 1

    def _append(self, whole: bytes) -> None:
        begun = b"\n" if self._is_torn else b""
        self._is_torn = True
        left = begun + whole
        while left:
            left = left[os.write(self._descriptor, left) :]
        self._is_torn = False
