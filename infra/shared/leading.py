"""The runner that leads, and on which rung of the ladder."""

from __future__ import annotations

from enum import Enum

import msgspec

from infra.shared import watcher_file


class Rung(Enum):
    """Of the ladder of who leads."""

    BRANCH = watcher_file.BRANCH_RUNG
    MAIN = watcher_file.MAIN_RUNG
    GOOD = watcher_file.GOOD_RUNG
    SAFE = watcher_file.SAFE_RUNG


class Runner(msgspec.Struct, frozen=True):
    """The process that leads, or led last."""

    boot_id: str
    branch: str
    commit: str
    pid: int
    started: float
    """The kernel's start time; with the pid it names one process for ever."""
    rung: Rung = Rung.MAIN
    version: str = ""
    led_for: str = ""
    """What main held when it was launched (`ladder.led_for`); when that is another, it is to make way."""
