"""The record of what the web door was asked: a line of JSON on its stdout, which the watcher keeps in a file.

A line is on the disk before its answer leaves, so whoever has the text is on record (`shared.web`). The file is moved
to `.1` only before a door starts, so none is lost on the way; a door that has written enough ends itself."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import msgspec

from infra.keep.allowance import Allowance
from infra.shared.web import TraceLine

MOST_BYTES = 100 << 20
REFUSALS_AT_ONCE = 200
SECONDS_A_REFUSAL = 0.1
"""Of more than that in a row, each waits so long for its line and its answer. They cost who asks nothing, and would
else push what was served out of the bounded file within minutes."""


class Trace:
    """`leave` is called once so much was written that the next door is to begin another file."""

    def __init__(
        self,
        descriptor: int,
        leave: Callable[[], None],
        refusals: Allowance | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._descriptor, self._leave, self._most_bytes = descriptor, leave, most_bytes
        self._refusals = refusals or Allowance(REFUSALS_AT_ONCE, SECONDS_A_REFUSAL)
        self._lock = threading.Lock()
        self._is_torn = False
        self._written = 0

    async def record(self, line: TraceLine) -> None:
        """Raises OSError when it is not on the disk."""
        if line.status in ("denied", "error"):
            await asyncio.sleep(self._refusals.overdraw(asyncio.get_running_loop().time()))
        # Not given up when the caller is: a line is whole or not begun.
        await asyncio.shield(asyncio.to_thread(self.write, line))
        if self._written > self._most_bytes:
            self._leave()

    def write(self, line: TraceLine) -> None:
        """Raises OSError, as `record`."""
        with self._lock:
            left = b"\n" * self._is_torn + msgspec.json.encode(line) + b"\n"
            self._is_torn = True
            self._written += len(left)
            while left:
                left = left[os.write(self._descriptor, left) :]
            self._is_torn = False
            os.fdatasync(self._descriptor)
