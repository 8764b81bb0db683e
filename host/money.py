"""What the calls of the model cost, by day, run and label. The ledger only grows, so each line of it is read once."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import NamedTuple

from infra.keep.ledger.lines import Settled, line_of
from infra.keep.ledger.prices import NANO
from infra.shared.conversation import TASK
from infra.shared.safe_files import opened_file

DAYS_SHOWN = 14


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
        self.runs, self.tokens = Counter[str](), Counter[str]()
        """By the name of a run: billionths of a dollar, and tokens."""
        self._days, self._labels = Counter[str](), Counter[str]()

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
        self._days[call.day] += call.nano_usd
        self.runs[call.run] += call.nano_usd
        self.tokens[call.run] += sum(call.usage)
        self._labels["directives" if call.label == TASK else call.label] += call.nano_usd

    def rows(self) -> dict[str, list[Row]]:
        """By day, the newest first; by label, the dearest first. What a run cost stands with the runs."""
        days = sorted(self._days.items(), reverse=True)[:DAYS_SHOWN]
        every = {"day": days, "label": self._labels.most_common()}
        return {what: [Row(name, nano / NANO) for name, nano in found] for what, found in every.items()}
