"""The runner that leads, and on which level of the ladder."""

from __future__ import annotations

from enum import Enum

import msgspec

from infra.shared import watcher_file


class Level(Enum):
    """Of the ladder of who leads."""

    BRANCH = watcher_file.BRANCH_LEVEL
    MAIN = watcher_file.MAIN_LEVEL
    GOOD = watcher_file.GOOD_LEVEL
    SAFE = watcher_file.SAFE_LEVEL


class Runner(msgspec.Struct, frozen=True):
    """The process that leads, or led last."""

    boot_id: str
    branch: str
    commit: str
    pid: int
    started: float
    """The kernel's start time; with the pid it names one process for ever."""
    level: Level = Level.MAIN
    version: str = ""
    launched_for: str = ""
    """What main held when it was launched (`ladder.launched_for`); when that is another, it is to make way."""
