"""Reports that are not yet on main. Each is on the disk before the first attempt to send it and is removed after
the last, so a report outlives whatever ends the runner in between; whoever sends it must not mind a second time."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from typing import NamedTuple

from infra.cell.runner.events import Log
from infra.shared.clock import timestamp
from infra.shared.files import sync_directory, write_whole
from infra.shared.requests import id_of_heading


class Unsent(NamedTuple):
    """One report, and the directives that are done with it."""

    at: str
    """Its time, as `clock.timestamp` writes it, and its place in the queue."""
    title: str
    text: str
    ticks: tuple[str, ...] = ()
    id: str = ""
    """32 hex digits, by which the keep knows that it has this report already."""


class UnsentReports:
    """The queue in `directory`, oldest first. What the disk refuses is kept in memory and tried again."""

    def __init__(self, directory: str, wall_seconds: Callable[[], float], log: Log) -> None:
        self._directory = directory
        self._wall_seconds = wall_seconds
        self._log = log
        self._homeless: list[Unsent] = []

    def add(self, title: str, text: str, ticks: tuple[str, ...] = ()) -> None:
        at = self._wall_seconds()
        while os.path.exists(self._path(timestamp(at))) or timestamp(at) in (each.at for each in self._homeless):
            at += 0.001
        self._keep(Unsent(timestamp(at), _writable(title), _writable(text), ticks, secrets.token_hex(16)))

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

    def set_aside(self, report: Unsent) -> None:
        """Of a report that will never be taken: its file stays beside the others, as `refused-…`."""
        if report in self._homeless:
            self._homeless.remove(report)
        else:
            os.rename(self._path(report.at), os.path.join(self._directory, f"refused-{report.at}.json"))

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
            at, title = raw["at"], raw["title"]
            # A runner of before wrote none; it may have put this very report onto the page.
            return Unsent(at, title, raw["text"], tuple(raw["ticks"]), raw.get("id") or id_of_heading(at, title))
        except (ValueError, KeyError, TypeError) as error:
            self._log.error("report.not_readable", path=path, error=repr(error), moved_to=f"{path}.bad")
            os.rename(path, f"{path}.bad")
            return None


def _writable(text: str) -> str:
    """`text` as UTF-8 can hold it: a model may speak half a character."""
    return text.encode(errors="replace").decode()
