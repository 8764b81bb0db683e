"""Signalling `bootstrap main`: the end of a hop, and how main's runner makes way for newer code."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.cell.runner.context import RunnerContext
from infra.shared.branches import MAIN
from infra.shared.signals import Signal, SignalName, write_signal

PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""A full disk may be emptied; the watcher counts its own time from the signal on."""


def signal_main(context: RunnerContext, why: str, pause: Callable[[float], None] = time.sleep) -> bool:
    """Signal `bootstrap main`; False when the disk refused to the end. Raises Interrupted."""
    for seconds in (*PAUSES_SECONDS, 0.0):
        try:
            write_signal(context.boot.places.signals, Signal(SignalName.BOOTSTRAP, MAIN))
        except OSError as error:
            context.log.error("signal.not_written", signal="bootstrap", target=MAIN, error=str(error))
            with context.interruption:
                pause(seconds)
        else:
            context.log.info("signal.written", signal="bootstrap", target=MAIN, why=why)
            return True
    return False
