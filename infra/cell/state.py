"""What a runner remembers over its own end: one JSON file beside the clones, which the one runner alone writes.

Beside the clones and not in one, because what a branch's runner could not send, main's sends. The disk may refuse: the
change then stays in memory and is written with the next one."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from infra.cell.waits import Wait
from infra.shared.redacted_file import RedactedFile
from infra.shared.requests import Report
from infra.shared.safe_files import whole_file

if TYPE_CHECKING:
    from infra.shared.log import Log

STATE_FILE = ".runner.json"
MOST_BYTES = 16 << 20
MOST_WAITS = 200


class Memory(msgspec.Struct, frozen=True):
    unsent: tuple[Report, ...] = ()
    """Reports that may not be on main yet, oldest first; the keep knows by its id one that it already has."""
    main: str = ""
    """Where main was at the last look: what the PM has pushed since is news."""
    waits: dict[str, Wait] = {}
    """What waits, by the id of the work."""
    explored: dict[str, dict[str, float]] = {}
    """Seconds of exploration, by the UTC day and the id of the question; of the last day alone."""


class State:
    """The memory as it is now, and its file."""

    def __init__(self, bot: str, log: Log) -> None:
        self._path, self._log = os.path.join(bot, STATE_FILE), log
        self.memory = self._load()

    def change(self, **fields: Any) -> None:
        """Remember these fields, and write down all that is remembered."""
        self.memory = replace(self.memory, **fields)
        try:
            RedactedFile(self._path).replace_json(msgspec.to_builtins(self.memory))
        except OSError as error:
            self._log.error("state.not_written", path=self._path, error=str(error), kept_in="memory")

    def waits_for(self, key: str, wait: Wait) -> None:
        """Remember how this waits, or that it does not."""
        others = [(name, each) for name, each in self.memory.waits.items() if name != key]
        found = [*others, *([(key, wait)] if wait != Wait(digest=wait.digest) else [])]
        self.change(waits=dict(found[-MOST_WAITS:]))

    def _load(self) -> Memory:
        try:
            return msgspec.json.decode(whole_file(self._path, MOST_BYTES), type=Memory)
        except FileNotFoundError:
            return Memory()
        except (OSError, ValueError, RecursionError) as error:
            self._log.error("state.not_readable", path=self._path, error=repr(error), moved_to=f"{self._path}.bad")
            with contextlib.suppress(OSError):
                os.rename(self._path, f"{self._path}.bad")
            return Memory()
