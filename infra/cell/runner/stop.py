"""SIGTERM: the watcher asks this runner to end. What it does now is broken off where it said it may be, and in any case
after `PATIENCE_SECONDS`, so that the runner is gone before the watcher kills it."""

from __future__ import annotations

import signal
from types import FrameType

from infra.cell.loop.interruption import Interrupted, Interruption

__all__ = ["Interrupted", "Interruption", "cancel_deadline", "listen"]

PATIENCE_SECONDS = 1.5


def listen() -> Interruption:
    """Note SIGTERM from now on."""
    interruption = Interruption()

    def asked(number: int, frame: FrameType | None) -> None:
        if not interruption.asked:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
            interruption.ask()

    def out_of_time(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, asked)
    return interruption


def cancel_deadline() -> None:
    """The request has been met; what is left to do is short, and must not be broken off."""
    signal.setitimer(signal.ITIMER_REAL, 0)
