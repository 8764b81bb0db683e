"""When the runner looks at its page: when the git door says that main or the mind moved, and on a grid of the clock.

The door is asked where both are, and answers when they are not where they were last (`requests.Tips`), so no move is
missed while it was away. Its answers only wake the runner, which then looks for itself."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from msgspec.structs import replace

from infra.cell.interruption import Interruption
from infra.shared.door import Failure, answer_on, put
from infra.shared.log import Log
from infra.shared.requests import Tips, Where

DOOR_SECONDS = 1.0
"""To be connected, and for the rest of an answer that has begun."""
AWAY_SECONDS = 0.5
"""Until a door that is away is asked again."""
LONGEST_WAIT_SECONDS = 30.0
"""Then the watcher hears again that we live."""


def next_tick(now: float, interval: float) -> float:
    """The first moment after `now` on the grid of `interval` seconds since the epoch."""
    return (now // interval + 1) * interval


class Wakes:
    """One question after the other to the git door at `path`."""

    def __init__(
        self,
        path: str,
        log: Log,
        interruption: Interruption,
        beat: Callable[[str, float], None] = lambda doing, seconds: None,
    ) -> None:
        """`beat` promises that what it names ends in so many seconds."""
        self._path, self._log, self._interruption, self._beat = path, log, interruption, beat
        self._wire: socket.socket | None = None
        self._last = Where("")
        """Where main and the mind were."""
        self._is_away = False

    def moved(self) -> bool:
        """Whether main or the mind moved since the last answer; does not wait."""
        return self._listen(0.0)

    def sleep(self, until: float) -> bool:
        """Wait for a move, at most until the clock says `until`; True for a move. Raises Interrupted.

        A clock that is set meanwhile makes it neither longer nor shorter."""
        ends = time.monotonic() + until - time.time()
        with self._interruption:
            while (left := ends - time.monotonic()) > 0:
                self._beat("sleeping", LONGEST_WAIT_SECONDS)
                if self._listen(min(left, LONGEST_WAIT_SECONDS)):
                    return True
        return False

    def is_quiet(self, seconds: float) -> bool:
        """Whether nothing moves for so long. Raises Interrupted."""
        return not self.sleep(time.time() + seconds)

    def seen(self, **where: str) -> None:
        """That `main`, or the `mind`, is at this commit is not news."""
        self._last = replace(self._last, **where)

    def close(self) -> None:
        if self._wire:
            self._wire.close()
        self._wire = None

    def _listen(self, seconds: float) -> bool:
        """Wait so long for an answer; True when it is news."""
        try:
            wire = self._wire = self._wire or self._asked()
            if not select.select([wire], [], [], seconds)[0]:
                return False
            where = answer_on(wire, Where)
            if isinstance(where, Failure):
                raise OSError(where.message)
            self.close()
            moved, self._last, self._is_away = where != self._last, where, False
            return moved
        except OSError as error:
            self.close()
            if not self._is_away:
                self._log.warning("git_door.lost", path=self._path, why=str(error))
            self._is_away = True
            time.sleep(min(seconds, AWAY_SECONDS))
            return False

    def _asked(self) -> socket.socket:
        """A door that was away answers at once; any other when something is not where it was. Raises OSError."""
        return put(self._path, Tips() if self._is_away else Tips(self._last.main, self._last.mind), DOOR_SECONDS)
