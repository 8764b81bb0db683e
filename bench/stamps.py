"""Moments that other processes write down: a FIFO in which each line is a word, a CLOCK_MONOTONIC time and a pid.

The writer reads the clock before anything else, so when the bench gets to read the line makes no difference."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

PATIENCE_SECONDS = 30.0

FIRST_LINE = "import time; NOW = time.clock_gettime_ns(time.CLOCK_MONOTONIC)\n"
"""The first statement of each program whose start is measured; `time` is built into the interpreter."""


def first_line_program(fifo: Path) -> str:
    """A program that stamps its first statement and then does nothing until it is ended."""
    return f"""{FIRST_LINE}
import os
OUT = os.open({str(fifo)!r}, os.O_WRONLY)
os.write(OUT, b"first %d %d\\n" % (NOW, os.getpid()))
os.close(OUT)
while True:
    time.sleep(3600)
"""


class Stamp(NamedTuple):
    word: str
    seconds: float
    pid: int


class Stamps:
    """The reading end of one FIFO."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        self.path = path
        # Read and write, so that there is always a reader: no writer ever waits, and no end of file is seen.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def next(self, word: str, what: str, seconds: float = PATIENCE_SECONDS) -> Stamp:
        """The next stamp with that word; others are dropped. Raises TimeoutError that says what was awaited."""
        until = time.monotonic() + seconds
        poller = select.poll()
        poller.register(self._fifo, select.POLLIN)
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                found = line.decode().split()
                if found[0] == word:
                    return Stamp(found[0], int(found[1]) / 1e9, int(found[2]))
                continue
            if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TimeoutError(f"{what}: no {word!r} within {seconds:g} s")
            self._rest += os.read(self._fifo, 4096)

    def forget(self) -> None:
        """Drop what was written until now."""
        self._rest = b""
        try:
            while os.read(self._fifo, 4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self._fifo)

    def __enter__(self) -> Stamps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def now() -> float:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e9


class BareStart:
    """The reference of all that starts a program: fork and exec of this interpreter, to a script's first statement."""

    def __init__(self, directory: Path, flags: Sequence[str]) -> None:
        self._stamps = Stamps(directory / "bare.fifo")
        program = directory / "bare.py"
        program.write_text(first_line_program(self._stamps.path))
        self._words = [sys.executable, *flags, str(program)]

    def measure(self) -> float:
        began = now()
        pid = os.fork()
        if pid == 0:
            try:
                os.execve(self._words[0], self._words, {"PATH": os.defpath, "LANG": "C.UTF-8"})
            finally:
                os._exit(127)
        try:
            return self._stamps.next("first", "the bare start").seconds - began
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)

    def close(self) -> None:
        self._stamps.close()


def progress(figure: str, what: str) -> None:
    """Say on stderr what is being done; on a terminal one line is written over, elsewhere each figure has one line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{figure}: {what}" if figure else "\r\033[K", end="", file=sys.stderr, flush=True)
    elif figure and figure not in _ANNOUNCED:
        _ANNOUNCED.add(figure)
        print(f"bench: {figure} ...", file=sys.stderr, flush=True)


_ANNOUNCED: set[str] = set()
