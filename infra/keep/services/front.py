"""What puts the git door in front of the shared repository, kept in its place."""

from __future__ import annotations

import contextlib
import os

from infra.keep.git_door.setup import write_door_files
from infra.keep.settings import Settings
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import Below


class DoorFiles:
    """What puts the git door in front of the shared repository. Its last part lies in the cell's own tree."""

    def __init__(self, places: Paths, settings: Settings, cell: Identity = OURS, by_daemon: bool = False) -> None:
        self._places = places
        self._settings = settings
        self._cell = cell
        self._by_daemon = by_daemon
        self._written: tuple[int, ...] = ()

    def put(self) -> None:
        """Before anything is launched: without its configuration the agent's pushes would go past the door.

        The agent's directory is opened up, which the agent may have closed. The files are written again only
        when they are not what was written. Raises OSError."""
        bot, config = Below(self._places.bot, self._cell), self._places.cell_git_config
        with contextlib.suppress(FileNotFoundError):
            bot.open_up()
        if self._written and self._written == _mark(bot.status(config)):
            return
        write_door_files(self._places, self._settings, self._cell, self._by_daemon)
        self._written = _mark(bot.status(config))


def _mark(status: os.stat_result | None) -> tuple[int, ...]:
    """Tells whether a file is still the one that was written."""
    if status is None:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
