"""Reports that are not yet on main. Each is on the disk before the first attempt to send it and is removed after
the last, so a report outlives whatever ends the runner in between; whoever sends it must not mind a second time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import NamedTuple

from infra.contract.clock import timestamp
from infra.contract.files import sync_directory, write_whole
from infra.life.events import Log


class Unsent(NamedTuple):
    """One report, and the directives that are done with it."""

    at: str
    """Its time, as `clock.timestamp` writes it; no two reports of one checkout have the same."""
    title: str
    text: str
    ticks: tuple[str, ...] = ()


class UnsentReports:
    """The queue in `directory`, oldest first. What the disk refuses is kept in memory and tried again."""

    def __init__(self, directory: str, wall_seconds: Callable[[], float], log: Log) -> None:
        self._directory = directory
        self._wall_seconds = wall_seconds
        self._log = log
        self._homeless: list[Unsent] = []
        self._last = 0.0

    def add(self, title: str, text: str, ticks: tuple[str, ...] = ()) -> None:
        self._last = _next_moment(self._wall_seconds(), self._last)
        while os.path.exists(self._path(timestamp(self._last))):
            self._last += 0.001
        self._keep(Unsent(timestamp(self._last), _writable(title), _writable(text), ticks))

    def oldest_first(self) -> list[Unsent]:
        homeless, self._homeless = self._homeless, []
        for report in homeless:
            self._keep(report)
        return sorted([*self._stored(), *self._homeless])

    def remove(self, report: Unsent) -> None:
        if report in self._homeless:
            self._homeless.remove(report)
            return
        os.unlink(self._path(report.at))
        sync_directory(self._directory)

    def replace(self, report: Unsent, title: str, text: str) -> None:
        """Give a report that nobody will take other words; the old ones stay beside, in `refused-…`."""
        if report in self._homeless:
            self._homeless.remove(report)
        else:
            os.rename(self._path(report.at), os.path.join(self._directory, f"refused-{report.at}.json"))
        self._keep(report._replace(title=_writable(title), text=_writable(text)))

    def _keep(self, report: Unsent) -> None:
        try:
            os.makedirs(self._directory, exist_ok=True)
            write_whole(self._path(report.at), json.dumps(report._asdict()).encode())
        except OSError as error:
            self._log.error("report.not_stored", title=report.title, error=str(error), kept_in="memory")
            self._homeless.append(report)

    def _path(self, at: str) -> str:
        return os.path.join(self._directory, f"{at}.json")

    def _stored(self) -> list[Unsent]:
        if not os.path.isdir(self._directory):
            return []
        names = [name for name in os.listdir(self._directory) if name.endswith("Z.json") and name[0].isdigit()]
        return [report for name in names if (report := self._read(os.path.join(self._directory, name)))]

    def _read(self, path: str) -> Unsent | None:
        try:
            with open(path, "rb") as file:
                raw = json.load(file)
            return Unsent(raw["at"], raw["title"], raw["text"], tuple(raw["ticks"]))
        except (ValueError, KeyError, TypeError) as error:
            self._log.error("report.not_readable", path=path, error=repr(error), moved_to=f"{path}.bad")
            os.rename(path, f"{path}.bad")
            return None


def _next_moment(now: float, last: float) -> float:
    """When the next report is made: now, but after `last`, unless the clock was set back meanwhile. Then `last` is a
    wrong clock's, and to stay after it would date every report from then on wrongly."""
    return last + 0.001 if 0.0 <= last - now < _SET_BACK_SECONDS else now


_SET_BACK_SECONDS = 1.0
"""Reports that follow each other at once run ahead of the clock by milliseconds."""


def _writable(text: str) -> str:
    """`text` as UTF-8 can hold it: a model may speak half a character."""
    return text.encode(errors="replace").decode()
