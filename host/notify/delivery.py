"""One attempt to deliver: a program of its own that gets the letter on its standard input, and is ended at a deadline.
So nothing that a receiver does, or does not do, holds up the sender."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Protocol

from infra.shared.notify_settings import NotifySettings
from infra.shared.paths import ROOT
from infra.shared.programs import keep_command
from infra.shared.secret_shapes import redacted
from infra.shared.text import cut, plain

SECONDS = 30.0
ERROR_BYTES, ERROR_CHARS = 4096, 300
SHELL = "/bin/sh"


class Attempt(Protocol):
    def ended(self) -> str | None:
        """Empty when it was delivered, else why it was not; None while it is under way."""

    def give_up(self) -> None:
        """End it at once."""


def deliver(
    notify: NotifySettings, channel: str, body: str, environ: Mapping[str, str], seconds: float = SECONDS
) -> Attempt:
    """Begin an attempt. Raises OSError when no program can be started."""
    if channel == "command":
        return _Program([SHELL, "-c", notify.command or ""], body, {**environ}, seconds)
    asked = json.dumps({"url": notify.webhook, "seconds": seconds, "body": body})
    # The address is a secret: not in an argument, which every user of the machine can read.
    return _Program(keep_command("host.notify.post"), asked, {**environ, "PYTHONPATH": ROOT}, seconds)


class _Program:
    def __init__(self, words: list[str], stdin: str, environ: dict[str, str], seconds: float) -> None:
        self._seconds = seconds
        given = os.memfd_create("notification")  # a pipe could be full
        try:
            os.write(given, stdin.encode(errors="replace"))
            os.lseek(given, 0, os.SEEK_SET)
            self._process = subprocess.Popen(
                words,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env=environ,
                start_new_session=True,
            )
        finally:
            os.close(given)
        assert self._process.stderr is not None  # noqa: S101 - a pipe was asked for
        self._errors = self._process.stderr
        os.set_blocking(self._errors.fileno(), False)
        self._said = b""
        self._deadline = time.monotonic() + seconds

    def ended(self) -> str | None:
        self._listen()
        status = self._process.poll()
        if status is None and time.monotonic() < self._deadline:
            return None
        if status is None:
            self.give_up()
            return f"it did not end within {self._seconds:g} s and was killed"
        self._listen()
        self.give_up()
        if status == 0:
            return ""
        how = f"was killed by signal {-status}" if status < 0 else f"ended with {status}"
        said = " ".join(plain(redacted(self._said.decode(errors="replace"))).split())
        return cut(f"it {how}" + (f": {said}" if said else ""), ERROR_CHARS)

    def give_up(self) -> None:
        """With what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def _listen(self) -> None:
        """Read on when enough is known too: a program must not wait for us."""
        with contextlib.suppress(BlockingIOError):
            while read := os.read(self._errors.fileno(), 1 << 16):
                self._said = (self._said + read)[:ERROR_BYTES]
