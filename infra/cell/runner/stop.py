"""SIGTERM: the watcher asks this runner to end. What it does now is broken off where it said it may be; where it did
not, and takes long, the watcher kills it, which each start is made for."""

from __future__ import annotations

import signal
from types import FrameType

from infra.cell.interruption import Interrupted, Interruption

__all__ = ["Interrupted", "Interruption", "listen"]


def listen() -> Interruption:
    """Note SIGTERM from now on."""
    interruption = Interruption()

    def asked(number: int, frame: FrameType | None) -> None:
        interruption.ask()

    signal.signal(signal.SIGTERM, asked)
    return interruption
