"""The record of what the web door was asked: a line of JSON on its stdout, which the watcher keeps in a file.

A line is on the disk before its answer leaves, so whoever has the text is on record (`shared.web`)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from math import inf

import msgspec

from infra.shared.web import TraceLine

REFUSALS_AT_ONCE = 200
SECONDS_A_REFUSAL = 0.1
"""Of more than that in a row, each waits so long for its line and its answer. They cost who asks nothing, and would
else push what was served out of the bounded file within minutes."""


class Trace:
    def __init__(
        self, descriptor: int, refusals_at_once: int = REFUSALS_AT_ONCE, seconds_a_refusal: float = SECONDS_A_REFUSAL
    ) -> None:
        self._descriptor = descriptor
        self._ahead = refusals_at_once * seconds_a_refusal
        self._seconds_a_refusal = seconds_a_refusal
        self._next_refusal = -inf
        self._lock = threading.Lock()
        self._is_torn = False
        self.lines = 0

    async def record(self, line: TraceLine) -> None:
        """Raises OSError when it is not on the disk."""
        if line.status in ("denied", "error"):
            await self._wait_for_a_place()
        # Not given up when the caller is: a line is whole or not begun.
        await asyncio.shield(asyncio.to_thread(self.write, line))

    async def _wait_for_a_place(self) -> None:
        now = asyncio.get_running_loop().time()
        self._next_refusal = max(self._next_refusal, now - self._ahead) + self._seconds_a_refusal
        if self._next_refusal > now:
            await asyncio.sleep(self._next_refusal - now)

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
