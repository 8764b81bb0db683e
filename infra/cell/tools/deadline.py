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
"""An act that goes on in spite of it is told again."""
AT_ONCE = 0.01
"""Not within the end of the inner act: whoever waits for that would take it for its own."""


class OutOfTime(BaseException):
    """The time of an act is over. No `except Exception` of a tool may take it for trouble."""


def within(seconds: float, act: Callable[[], T]) -> T:
    """What `act` gives. Raises what it raises, and OutOfTime when it had to be ended. An act within another has no more
    time than that one."""
    if threading.current_thread() is not threading.main_thread():
        return act()
    began, (outer, _) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    handler = signal.signal(signal.SIGALRM, _ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(min(seconds, outer or seconds), AT_ONCE), AGAIN_SECONDS)
            return act()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except OutOfTime:  # which may have come behind the act
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        raise
    finally:
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
        if outer:
            left = outer - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, AT_ONCE), AGAIN_SECONDS)


def _ring(number: int, frame: FrameType | None) -> None:
    raise OutOfTime
