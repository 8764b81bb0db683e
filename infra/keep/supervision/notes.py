"""What the watcher knows, on the disk before anything is done on the strength of it: its state, and with it what the PM
is still to be told."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from infra.keep.supervision import memory
from infra.keep.supervision.reports import Reports
from infra.keep.supervision.states import Action, Instant, State, Tell
from infra.shared.places import Places
from infra.shared.watcher_file import Trouble, WatcherFile


class Notes:
    """`watcher.json` over time; written only when it would say something new."""

    def __init__(self, places: Places, reports: Reports, log: structlog.stdlib.BoundLogger) -> None:
        self._path = places.watcher_state
        self._reports = reports
        self._log = log
        self._kept = WatcherFile()
        self._is_behind = False
        """The disk refused the last time."""
        self._last_trouble: Trouble | None = None
        self._is_outdated = False

    def read(self) -> tuple[WatcherFile, str]:
        """What an earlier watcher left, and what was wrong with it; its reports are to be told still."""
        file, problem = memory.load(self._path)
        if problem:
            self._log.error("memory.unreadable", reason=problem)
        self._last_trouble = file.troubles[-1] if file.troubles else None
        self._reports.take_up(file.untold)
        return file, problem

    @property
    def is_due(self) -> bool:
        """Something changed that no decision tells of."""
        return self._is_behind or self._reports.untold != self._kept.untold

    def keep(self, state: State, actions: Iterable[Action], at: Instant) -> bool:
        """Durably; what `actions` tell is kept with it, so a watcher that is killed now has decided nothing in silence.

        False when the disk refuses: that is logged, and supervision goes on meanwhile."""
        for action in actions:
            if isinstance(action, Tell):
                self._reports.add(action, at)
        if state.troubles and state.troubles[-1] != self._last_trouble:
            self._last_trouble = state.troubles[-1]
            self._log.warning("trouble", text=self._last_trouble.text)
        if (state.make_way_by is not None) is not self._is_outdated:
            self._is_outdated = state.make_way_by is not None
            if self._is_outdated:
                self._log.info("runner.outdated", main=state.main.commit, seconds=state.patience.make_way)
        try:
            self.write(state, at)
        except OSError as error:
            if not self._is_behind:
                self._log.error("memory.not_saved", reason=str(error))
            self._is_behind = True
            return False
        self._is_behind = False
        return True

    def write(self, state: State, at: Instant) -> None:
        """Note an attempt before it is made: a crash in between must not hide it. Raises OSError."""
        file = memory.to_file(state, self._reports.untold, at)
        if file != self._kept:
            memory.save(self._path, file)
            self._kept = file
