"""What the watcher has to tell the PM: appended to COMMS.md at once; what cannot be is kept, over its own death too."""

from __future__ import annotations

import json
import os
from collections import deque

import structlog

from infra.contract.clock import timestamp
from infra.contract.files import write_whole
from infra.contract.places import Places
from infra.repository.git import GitError
from infra.repository.tip import TipBusy
from infra.supervision import main_branch
from infra.supervision.states import Instant, Tell

LONGEST_DELAY = 60.0


class Reports:
    """Reports in their order. Each attempt costs a few git calls, so one that fails is not repeated at once."""

    def __init__(self, places: Places, log: structlog.stdlib.BoundLogger) -> None:
        self._places = places
        self._log = log
        self._path = f"{places.var}/untold.json"
        self._untold: deque[Tell] = deque()
        self._kept = 0
        """How many of them, from the first, are on the disk."""
        self._delay = 0.0
        self._due = 0.0

    def load(self) -> None:
        """Take up what an earlier watcher could not tell."""
        try:
            with open(self._path, encoding="utf-8") as file:
                self._untold.extend(Tell(str(title), str(text)) for title, text in json.load(file))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, RecursionError) as error:
            self._log.error("reports.unreadable", path=self._path, reason=str(error))
        self._kept = len(self._untold)

    def add(self, report: Tell) -> None:
        self._untold.append(report)

    def send(self, now: Instant, at_last: bool = False) -> None:
        """Append what is untold to COMMS.md, unless an attempt failed a moment ago and this is not the last one."""
        if not self._untold or (now.monotonic < self._due and not at_last):
            return
        told = 0
        while self._untold:
            title, text = self._untold[0]
            try:
                main_branch.report(self._places, title, text, timestamp(now.wall))
            except (GitError, TipBusy, OSError, ValueError) as error:
                self._log.error("report.failed", title=title, reason=str(error)[:1000])
                self._delay = min(max(1.0, 2 * self._delay), LONGEST_DELAY)
                removed = main_branch.remove_stale_locks(self._places, now.wall)
                if removed:
                    self._log.warning("locks.removed", paths=removed)
                break
            self._untold.popleft()
            told += 1
            self._delay = 0.0
        self._due = now.monotonic + self._delay
        if told or len(self._untold) != self._kept:
            self._keep()

    def _keep(self) -> None:
        try:
            if self._untold:
                write_whole(self._path, json.dumps(list(self._untold)).encode(), mode=0o600)
            elif self._kept:
                os.unlink(self._path)
        except OSError as error:
            self._log.error("reports.not_kept", reason=str(error))
            return
        self._kept = len(self._untold)
