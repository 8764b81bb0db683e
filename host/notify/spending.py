"""What the ledger's lines of today and yesterday come to, read on from where the last look ended.

A call that the provider refuses costs nothing, so the agent can have as many lines written as it likes: none is kept,
and each is read once."""

from __future__ import annotations

import os
import time

from infra.keep.ledger.budget import Budget, Cost
from infra.keep.ledger.ledger import Line, Opened, line_of, replayed
from infra.keep.ledger.prices import NANO
from infra.shared.safe_files import opened_file
from infra.shared.settings import BudgetSettings

DAY_SECONDS = 86400


class Spending:
    """Of one agent, as the model door counts it."""

    def __init__(self, path: str, given: BudgetSettings) -> None:
        self._path = path
        self._of_day = Cost(round(given.daily_usd * NANO), given.daily_tokens)
        self._of_unit = Cost(round(given.unit_usd * NANO), given.unit_tokens)
        self._days: tuple[str, str] = ("", "")
        self._file, self._end = 0, 0
        """Its inode, and up to where it was read."""
        self._units: dict[str, Budget] = {}
        self.today = Budget("", self._of_day)
        self.last: Opened | None = None
        """The call that was begun last."""
        self.at = ""
        """Of the last line."""

    @property
    def of_work(self) -> Budget:
        """The unit of work of the last call."""
        unit = self.last.unit if self.last else ""
        return self._units.get(unit, Budget(self.today.day, self._of_unit))

    def read(self, now: float) -> None:
        """Raises OSError."""
        days = self._day(now - DAY_SECONDS), self._day(now)
        with opened_file(self._path) as file:
            status = os.fstat(file.fileno())
            if days != self._days or status.st_ino != self._file or status.st_size < self._end:
                self._days, self._file, self._end = days, status.st_ino, 0
                self._units, self.today = {}, Budget(days[1], self._of_day)
                self.last, self.at = None, ""
            names = [day.encode() for day in days]
            file.seek(self._end)
            for content in file:
                if not content.endswith(b"\n"):  # it is still being written
                    break
                self._end += len(content)
                line = line_of(content) if any(name in content for name in names) else None
                if line and line.day in days:
                    self._count(line)

    def _day(self, moment: float) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(moment))

    def _count(self, line: Line) -> None:
        if line.day == self.today.day:
            self.today = replayed(self.today, line)
        unit = self._units.get(line.unit, Budget(self.today.day, self._of_unit))
        self._units[line.unit] = replayed(unit, line)
        self.last, self.at = line if isinstance(line, Opened) else self.last, line.time
