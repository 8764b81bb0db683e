"""What the calls of the model cost: by day, run and label, and between two times. The ledger only grows, so each line
of it is read once."""

from __future__ import annotations

import bisect
import contextlib
import os
from collections import Counter
from typing import NamedTuple

from infra.keep.ledger.lines import Settled, line_of
from infra.keep.ledger.prices import NANO
from infra.shared.conversation import TASK
from infra.shared.safe_files import opened_file

DAYS_SHOWN, RUNS_SHOWN = 14, 20


class Row(NamedTuple):
    name: str
    usd: float


class Money:
    """The ledger at `path`, as far as it was read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self._file, self._read = 0, 0
        self._times: list[str] = []
        self._sums: list[int] = []
        """Billionths of a dollar of all calls up to the one that ended then."""
        self._days, self._runs, self._labels = Counter[str](), Counter[str](), Counter[str]()

    def read(self) -> Money:
        """Take what was added since. Raises OSError."""
        with contextlib.suppress(FileNotFoundError), opened_file(self._path) as file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._file or status.st_size < self._read:  # another file is there now
                self._begin()
                self._file = status.st_ino
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if isinstance(call := line_of(line), Settled):
                    self._take(call)
        return self

    def _take(self, call: Settled) -> None:
        self._times.append(max(call.time, self._times[-1] if self._times else ""))
        self._sums.append(call.nano_usd + (self._sums[-1] if self._sums else 0))
        self._days[call.day] += call.nano_usd
        self._runs[call.run or "no run"] += call.nano_usd
        self._labels["directives" if call.label == TASK else call.label] += call.nano_usd

    def between(self, begin: str, end: str) -> float:
        """Dollars of the calls that ended after `begin` and up to `end`, as the ledger writes times."""
        return (self._until(end) - self._until(begin)) / NANO

    def _until(self, time: str) -> int:
        place = bisect.bisect_right(self._times, time)
        return self._sums[place - 1] if place else 0

    def of_run(self, run: str) -> float:
        return self._runs[run] / NANO

    def rows(self) -> dict[str, list[Row]]:
        """By day, the newest first; by run and by label, the dearest first."""
        days = sorted(self._days.items(), reverse=True)[:DAYS_SHOWN]
        every = {"day": days, "run": self._runs.most_common(RUNS_SHOWN), "label": self._labels.most_common()}
        return {what: [Row(name, nano / NANO) for name, nano in found] for what, found in every.items()}
