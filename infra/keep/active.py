"""The active runner, and the level of fallback on which it runs."""

from __future__ import annotations

from enum import Enum

import msgspec

from infra.keep import watcher_file
from infra.shared import report_titles


class Level(Enum):
    """A requested branch; main; the last known-good main; safe mode."""

    BRANCH = watcher_file.BRANCH_LEVEL
    MAIN = watcher_file.MAIN_LEVEL
    GOOD = watcher_file.GOOD_LEVEL
    SAFE = watcher_file.SAFE_LEVEL


class Runner(msgspec.Struct, frozen=True):
    """The process that runs, or ran last."""

    boot_id: str
    branch: str
    commit: str
    pid: int
    started: float
    """The kernel's start time; with the pid it names one process for ever."""
    level: Level = Level.MAIN
    version: str = ""
    launched_for: str = ""
    """The version of main that it was launched for (`succession.launched_for`); when that changes, the runner must make
    way."""

    @property
    def title(self) -> str:
        """The version that runs; in safe mode it is none of main's."""
        version = report_titles.version(self.branch, self.commit)
        return f"{Level.SAFE.value} (in place of {version})" if self.level is Level.SAFE else version
