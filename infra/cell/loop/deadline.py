"""The end of an act that hangs: an exception is raised in the midst of it, by the kernel's alarm.

The act runs in the main thread, so nothing of it continues: not a loop without end, nor a wait for what never comes.
What no signal breaks off (native code that never returns, a disk that does not answer) breaks the promise of the
heartbeat, and the watcher ends the runner. In other threads than the main one nothing is ended."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

AGAIN_SECONDS = 5.0
"""An act that goes on in spite of it is told again. An alarm that repeats so is one of ours."""
AT_ONCE = 1e-6


class OutOfTime(BaseException):
    """The time of an act is over. No `except Exception` of a tool may take it for trouble."""


def within(seconds: float, act: Callable[[], T]) -> T:
    """What `act` gives. Raises what it raises, and OutOfTime when it had to be ended."""
    if threading.current_thread() is not threading.main_thread():
        return act()
    alarm = _Alarm(seconds)
    try:
        try:
            alarm.set()
            return act()
        finally:
            alarm.cancel()
    except OutOfTime:  # which may have come behind the act
        alarm.cancel()
        raise


class _Alarm:
    """Goes off after so many seconds. What else the process has an alarm for (its patience with a request to end) keeps
    its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = time.monotonic()
        self._is_set = False
        self._handler = signal.getsignal(signal.SIGALRM)
        self._left = self._interval = 0.0
        """Of the alarm that was set before; 0 for none."""

    def set(self) -> None:
        self._is_set = True
        signal.signal(signal.SIGALRM, self._ring)
        self._left, self._interval = signal.setitimer(signal.ITIMER_REAL, self._seconds or AT_ONCE, AGAIN_SECONDS)
        if 0 < self._left < self._seconds:
            signal.setitimer(signal.ITIMER_REAL, self._left, AGAIN_SECONDS)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if not self._is_set:
            return
        gone = time.monotonic() - self._began
        is_over = gone >= self._seconds
        was_set_meanwhile = signal.getitimer(signal.ITIMER_REAL)[1] != AGAIN_SECONDS
        if was_set_meanwhile or 0 < self._left <= gone or not is_over:  # it is the other alarm, which comes first
            self._left = 0.0
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS if is_over else self._seconds - gone, AGAIN_SECONDS)
            if callable(self._handler):
                self._handler(number, frame)
        if is_over:
            raise OutOfTime

    def cancel(self) -> None:
        self._is_set = False
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._handler or signal.SIG_DFL)
        if interval != AGAIN_SECONDS:  # it was set by somebody else meanwhile
            signal.setitimer(signal.ITIMER_REAL, left, interval)
        elif self._left:
            left = max(self._left - (time.monotonic() - self._began), AT_ONCE)
            signal.setitimer(signal.ITIMER_REAL, left, self._interval)
