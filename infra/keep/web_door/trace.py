"""The record of what the web door was asked: a line of JSON on its stdout, which the watcher keeps in a file.

A line is on the disk before its answer leaves, so whoever has the text is on record (`TraceLine`). The file is moved
to `.1` only before a door starts, so none is lost on the way; a door that has written enough ends itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from typing import Literal

import msgspec

from infra.keep.allowance import Allowance
from infra.keep.web_door.refusal import WebRefusal
from infra.shared.clock import timestamp
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.web import Mode

MOST_BYTES = 100 << 20
MOST_SHOWN = 500
"""Characters of an address."""
REFUSALS_AT_ONCE = 200
SECONDS_A_REFUSAL = 0.1
"""Of more than that in a row, each waits so long for its line and its answer. They cost who asks nothing, and would
else push what was served out of the bounded file within minutes."""


class TraceLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request, as the door records it before it answers. See SPEC_WEB for its schema."""

    at: str
    run_id: str
    step_id: str
    tool_name: str
    args_hash: str
    duration_ms: int
    status: Literal["ok", "error", "denied", "package"]
    """ok: text of the web was served to the caller, who is tainted from then on; package: a file for pip, uv or npm,
    which is passed on and marks nobody."""
    error_code: str = ""
    artifacts: tuple[str, ...] = ()
    """`sha256:…` of what came."""
    policy_flags: tuple[str, ...] = ()
    origin: str = ""
    """Scheme, host and port of the final address."""
    url: str = ""
    """The final address, redacted."""
    size: int = 0
    render_mode: Mode = ""
    """How a browser showed it; empty for a page as it came."""
    uid: int = -1
    """Of the caller, as the kernel knows it."""


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


def begun_line(tool: str, given: bytes, url: str, at: float, seconds: float, refusal: WebRefusal | None) -> TraceLine:
    """What every line has. `at`: of the epoch, when it was asked; `given`: what was asked."""
    error = refusal.error.type if refusal else ""
    return TraceLine(
        *(timestamp(at), "", "", tool, hashlib.sha256(given).hexdigest(), round(seconds * 1000)),
        status="denied" if error == "policy_denied" else "error" if error else "ok",
        error_code=error,
        policy_flags=refusal.flags if refusal else (),
        url=in_line(url),
    )


def in_line(words: str) -> str:
    """As a line has them, which others read."""
    return redacted_and_cut(words, MOST_SHOWN)
