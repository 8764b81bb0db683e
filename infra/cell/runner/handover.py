"""Handing over to main: the signal that ends a hop, and the one by which main's runner makes way for newer code."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from infra.cell.runner.home import Home
from infra.shared.branches import MAIN
from infra.shared.files import write_whole
from infra.shared.signals import Signal, SignalName, write_signal

PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""A full disk may be emptied; the watcher's patience after a signal starts when it is there."""


def hand_over_to_main(home: Home, why: str, pause: Callable[[float], None] = time.sleep) -> bool:
    """Signal `bootstrap main`; False when the disk refused to the end."""
    for seconds in (*PAUSES_SECONDS, 0.0):
        try:
            write_signal(home.boot.places.signals, Signal(SignalName.BOOTSTRAP, MAIN))
        except OSError as error:
            home.log.error("signal.not_written", signal="bootstrap", target=MAIN, error=str(error))
            with home.interruption:
                pause(seconds)
        else:
            home.log.info("signal.written", signal="bootstrap", target=MAIN, why=why)
            return True
    return False


def made_way_before(home: Home, body: str) -> bool:
    """Whether a runner of this very commit already made way for this `body` of main; notes that one now does.

    If the watcher could not bring the checkout to main, the next runner finds itself as outdated as the last
    one was: without this note the two would hand over to each other for ever."""
    path = os.path.join(home.checkout, "logs/handover")
    now = f"{home.boot.commit} made way for {body}\n"
    try:
        with open(path, encoding="utf-8") as file:
            before = file.read()
    except FileNotFoundError:
        before = ""
    if before == now:
        return True
    write_whole(path, now.encode())
    return False
