"""Ctrl-C and SIGTERM: an exception while a driver is asked; a flag while a command runs, whose event is still kept."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

ONE_SECONDS = 1.0
"""Signals so near to each other are one: the terminal tells us, and who started us does."""


class Interrupted(KeyboardInterrupt):
    """A signal asked for the end of the run."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.run: Path | None = None
        """The directory of the run that it ended."""


class Stop:
    """Whether a signal came, and what it does."""

    def __init__(self) -> None:
        self.number = 0
        self._shields = 0
        self._raised = -ONE_SECONDS

    def seen(self) -> bool:
        return self.number != 0

    def check(self) -> None:
        """Raises Interrupted when a signal came."""
        if self.number:
            raise Interrupted(self.number)

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """A signal is only remembered in here."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """While in here, signals are this object's; in a thread of its own there are none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._come) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _come(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        if not self._shields and time.monotonic() - self._raised >= ONE_SECONDS:
            self._raised = time.monotonic()
            raise Interrupted(number)
