"""Running one command to its end within bounds: of time, and of what is kept of its output.

The command leads a session of its own, so it is ended with everything it started. Its output comes through a pipe
that is drained while it runs and let go when it ends: neither a flood of output nor a background process that
still holds the pipe can fill the disk or hang the caller."""

from __future__ import annotations

import codecs
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from infra.cell.clip import HeadAndTail
from infra.cell.interruption import Interruption

POLITE_SECONDS = 0.5
"""Between asking a session to end and ending it."""
CHUNK_BYTES = 1 << 16
LAST_CHUNKS = 16
"""Read after the command has ended: more than a pipe holds, and an end to a flood."""


class Ran(NamedTuple):
    """How a command ended."""

    status: int | None
    """Exit status, negative for a signal; None when it ran out of time and was ended."""
    output: str
    """stdout, cut in the middle when long."""
    errors: str = ""
    """stderr, cut in the same way."""
    left_out: bool = False
    """One of them was cut."""
    beginning: bytes = b""
    """The first bytes of all output, as many as were asked for."""


def run(
    words: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    seconds: float,
    output_chars: int,
    interruption: Interruption,
    end_session: bool = False,
    beginning_bytes: int = 0,
) -> Ran:
    """Run `words` and wait for its end, for `seconds` at most.

    What it left running in the background goes on unless `end_session` is given. Raises OSError when it cannot be
    started, Interrupted after ending its whole session."""
    beginning = bytearray()

    def take(piece: bytes) -> None:
        beginning.extend(piece[: beginning_bytes - len(beginning)])

    process = subprocess.Popen(
        words,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    try:
        pipes = [_Output(pipe.fileno(), output_chars, take) for pipe in (process.stdout, process.stderr) if pipe]
        with interruption:
            in_time = _follow(process.pid, pipes, seconds)
        if not in_time or end_session:
            _end_session(process)
        for pipe in pipes:
            pipe.drain()
    except BaseException:
        _end_session(process)
        raise
    finally:
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
    output, errors = (pipe.text() for pipe in pipes)
    left_out = any(pipe.left_out for pipe in pipes)
    return Ran(process.returncode if in_time else None, output, errors, left_out, bytes(beginning))


class _Output:
    """The read end of a command's pipe."""

    def __init__(self, pipe: int, limit: int, take: Callable[[bytes], None]) -> None:
        self.pipe = pipe
        os.set_blocking(pipe, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._kept = HeadAndTail(limit)
        self._take = take

    def drain(self) -> None:
        for _ in range(LAST_CHUNKS):
            if not self.read():
                return

    def text(self) -> str:
        self._kept.feed(self._decoder.decode(b"", True))
        return self._kept.text()

    @property
    def left_out(self) -> bool:
        return self._kept.left_out > 0

    def read(self) -> bool:
        """Take one piece; False when there is none (now, or ever again)."""
        try:
            piece = os.read(self.pipe, CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._kept.feed(self._decoder.decode(piece))
        self._take(piece)
        return bool(piece)


def _follow(pid: int, outputs: Sequence[_Output], seconds: float) -> bool:
    """Read until the command has ended; False when it has not after `seconds`."""
    until = time.monotonic() + seconds
    exit_seen = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(exit_seen, select.POLLIN)
        for output in outputs:
            poller.register(output.pipe, select.POLLIN)
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


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End the command and all of its session. Its leader is not yet reaped, so that the number is still its own."""
    if process.returncode is not None:
        return
    _signal_group(process.pid, signal.SIGTERM)
    exit_seen = os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(exit_seen, select.POLLIN)
        poller.poll(POLITE_SECONDS * 1000)
    finally:
        os.close(exit_seen)
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
