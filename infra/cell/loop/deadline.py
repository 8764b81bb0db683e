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
        self._left, self._interval = signal.getitimer(signal.ITIMER_REAL)
        """Of the alarm that was set before; 0 for none."""

    def set(self) -> None:
        self._is_set = True
        signal.signal(signal.SIGALRM, self._ring)
        first = min(self._seconds, self._left or self._seconds)
        signal.setitimer(signal.ITIMER_REAL, first or AT_ONCE, AGAIN_SECONDS)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        left = self._began + self._seconds - time.monotonic()
        if not self._is_set:
            return
        if left <= 0:
            raise OutOfTime
        self._left = 0.0  # it is the other alarm, or one that was set meanwhile
        signal.setitimer(signal.ITIMER_REAL, left, AGAIN_SECONDS)
        if callable(self._handler):
            self._handler(number, frame)

    def cancel(self) -> None:
        self._is_set = False
        is_ours = signal.getitimer(signal.ITIMER_REAL)[1] == AGAIN_SECONDS  # else it was set by somebody else meanwhile
        if is_ours:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._handler or signal.SIG_DFL)
        if is_ours and self._left:
            left = max(self._left - (time.monotonic() - self._began), AT_ONCE)
            signal.setitimer(signal.ITIMER_REAL, left, self._interval)
