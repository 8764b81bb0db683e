"""Running one command to its end within bounds: of time, and of what is kept of its output.

The command leads a process group, which is ended when the time is over. What has left the group ends with the run."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from infra.cell.clip import HeadAndTail
from infra.cell.interruption import Interruption

CHUNK_BYTES = 1 << 17
"""More than a pipe holds."""
MOST_KEPT = 1 << 19
"""Of one output: logs that grow by `limits.log_bytes` in a minute are cut by the watcher."""


class Ran(NamedTuple):
    """How a command ended."""

    status: int | None
    """Exit status, negative for a signal; None when it ran out of time and was ended."""
    output: str
    """stdout, cut in the middle when long."""
    errors: str = ""
    """stderr, cut in the same way."""
    beginning: bytes = b""
    """The first MOST_KEPT bytes of all output, when one of them was cut."""


def run(
    words: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    seconds: float,
    output_chars: int,
    interruption: Interruption,
    end_group: bool = False,
) -> Ran:
    """Run `words` and wait for its end, for `seconds` at most.

    What it left running in the background goes on unless `end_group` is given. Raises OSError when it cannot be
    started, Interrupted after ending its group."""
    beginning = bytearray()
    pipe, in_time = subprocess.PIPE, False
    process = subprocess.Popen(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
    )
    with process:
        outputs = outputs_of(process, output_chars, lambda piece: beginning.extend(piece[: MOST_KEPT - len(beginning)]))
        try:
            with interruption:
                in_time = follow(process.pid, outputs, seconds)
        finally:
            if not in_time or end_group:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # it is not reaped yet: the number is its own
        for output in outputs:
            output.read()
    shown, errors = (output.kept.text() for output in outputs)
    kept = bytes(beginning) if any(output.kept.left_out for output in outputs) else b""
    return Ran(process.returncode if in_time else None, shown, errors, kept)


class Output:
    """The read end of a command's pipe, and what came through it."""

    def __init__(self, pipe: int, limit: int, take: Callable[[bytes], None]) -> None:
        os.set_blocking(pipe, False)
        self.pipe, self.kept, self._take = pipe, HeadAndTail(limit), take
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self) -> bool:
        """Take what the pipe holds; False when that is nothing (now, or ever again)."""
        try:
            piece = os.read(self.pipe, CHUNK_BYTES)
        except BlockingIOError:
            return False
        self.kept.feed(self._decoder.decode(piece, final=not piece))
        self._take(piece)
        return bool(piece)


def outputs_of(process: subprocess.Popen[bytes], limit: int, take: Callable[[bytes], None]) -> list[Output]:
    """Of its pipes; `take` is given what comes through them."""
    return [Output(each.fileno(), limit, take) for each in (process.stdout, process.stderr) if each]


def follow(pid: int, outputs: Sequence[Output], seconds: float) -> bool:
    """Read until the command has ended; False when it has not after `seconds`."""
    until = time.monotonic() + seconds
    exit_seen = os.pidfd_open(pid)
    try:
        poller = select.poll()
        for descriptor in (exit_seen, *(output.pipe for output in outputs)):
            poller.register(descriptor, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in poller.poll(min(left, 3600.0) * 1000)}
            if exit_seen in ready:
                return True
            for output in outputs:
                if output.pipe in ready and not output.read():
                    poller.unregister(output.pipe)
        return False
    finally:
        os.close(exit_seen)
