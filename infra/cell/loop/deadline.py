"""The end of an act that hangs: an exception is raised in the midst of it, by a signal.

The act runs in the main thread, so nothing of it continues: not a loop without end, nor a wait for what never comes. A
thread looks at the clock; while acts end in time it sleeps, and an act costs it nothing. What a signal cannot break off
(native code that never returns, a disk that does not answer) breaks the promise of the heartbeat, and the watcher ends
the runner. In other threads than the main one nothing is ended."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

SIGNAL = signal.SIGUSR1
AGAIN_SECONDS = 5.0
"""An act that goes on in spite of it is told again."""


class OutOfTime(BaseException):
    """The time of an act is over. No `except Exception` of a tool may take it for trouble."""


class _Watchdog:
    """Tells the main thread when the time of its act is over."""

    def __init__(self) -> None:
        self.until = math.inf
        """Of the act that runs; read by the thread and by the handler."""
        self._looks_at = math.inf
        """When the thread looks next."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def arm(self, until: float) -> None:
        self.until = until
        if until < self._looks_at:
            with self._changed:
                if self._thread is None or not self._thread.is_alive():
                    signal.signal(SIGNAL, self._tell)
                    self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)
                    self._thread.start()
                self._changed.notify()

    def _tell(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= self.until:
            raise OutOfTime

    def _watch(self) -> None:
        main = threading.main_thread().ident
        with self._changed:
            while True:
                self._looks_at = math.inf  # before the look: an act that begins meanwhile wakes this thread again
                now = time.monotonic()
                is_due = now >= self.until
                if is_due and main is not None:
                    signal.pthread_kill(main, SIGNAL)
                self._looks_at = now + AGAIN_SECONDS if is_due else self.until
                left = self._looks_at - now
                self._changed.wait(None if left == math.inf else min(left, threading.TIMEOUT_MAX))


_WATCHDOG = _Watchdog()


def within(seconds: float, act: Callable[[], T]) -> T:
    """What `act` gives. Raises what it raises, and OutOfTime when it had to be ended."""
    if threading.current_thread() is not threading.main_thread():
        return act()
    try:
        try:
            _WATCHDOG.arm(time.monotonic() + seconds)
            return act()
        finally:
            _WATCHDOG.until = math.inf
    except OutOfTime:  # it may have come behind the act
        _WATCHDOG.until = math.inf
        raise
