"""When the runner looks at its page: when the git door says that main or the mind moved, and on a grid of the clock.

The door is asked where both are, and answers when they are not where they were last (`requests.Tips`), so no move is
missed while it was away. Its answers only wake the runner, which then looks for itself."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

import msgspec

from infra.cell.interruption import Interruption
from infra.cell.log import Log
from infra.shared.door import Answer, connect
from infra.shared.requests import Tips, Where

CONNECT_SECONDS = 1.0
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.1, 2.0
LONGEST_WAIT_SECONDS = 30.0
"""The clock of the wall may be set, so it is looked at again after so long; and the watcher hears that we live."""


def next_tick(now: float, interval: float) -> float:
    """The first moment after `now` on the grid of `interval` seconds since the epoch."""
    tick = (now // interval + 1) * interval
    return tick if tick > now else tick + interval  # for floats so large that adding the interval was lost in rounding


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
        self._path = path
        self._beat = beat
        self._log = log
        self._interruption = interruption
        self._door: socket.socket | None = None
        self._heard = b""
        self._last = Where("")
        """Where main and the mind were."""
        self._backoff = FIRST_BACKOFF_SECONDS
        self._try_at = 0.0
        self._is_lost = self._has_returned = False

    def moved(self) -> bool:
        """Whether main moved since the last answer; does not wait."""
        return self._listen(0.0)

    def sleep(self, until: float, wall_seconds: Callable[[], float] = time.time) -> bool:
        """Wait for main to move or the door to come back, at most until the clock says `until`; True when main moved.
        Raises Interrupted.

        A clock that is set back meanwhile does not make it longer."""
        latest = time.monotonic() + until - wall_seconds()
        with self._interruption:
            while not self._has_returned and (left := min(until - wall_seconds(), latest - time.monotonic())) > 0:
                self._beat("sleeping", LONGEST_WAIT_SECONDS)
                if self._listen(min(left, LONGEST_WAIT_SECONDS)):
                    return True
        return False

    def is_quiet(self, seconds: float) -> bool:
        """Whether main stays where it is for so long. Raises Interrupted."""
        return not self.sleep(time.time() + seconds)

    def has_returned(self) -> bool:
        """Whether the door was away and is back, since this was asked last: another watcher may have brought it."""
        found, self._has_returned = self._has_returned, False
        return found

    def seen(self, commit: str) -> None:
        """Main was looked at: that it is at `commit` is not news."""
        self._last = Where(commit, self._last.mind)

    def seen_mind(self, commit: str) -> None:
        """The same of the mind."""
        self._last = Where(self._last.main, commit)

    def close(self) -> None:
        if self._door:
            self._door.close()
        self._door = None

    def _listen(self, seconds: float) -> bool:
        if self._door is None and not self._ask():
            time.sleep(max(0.0, min(seconds, self._try_at - time.monotonic())))
            return False
        assert self._door is not None  # noqa: S101 - _ask said so
        poller = select.poll()
        poller.register(self._door, select.POLLIN)
        return bool(poller.poll(seconds * 1000)) and self._hear(self._door)

    def _ask(self) -> bool:
        """Where main and the mind are: the door answers when they are not where they were last, and at once when it was
        away."""
        if time.monotonic() < self._try_at:
            return False
        known = Tips() if self._is_lost else Tips(self._last.main, self._last.mind)
        try:
            self._door = connect(self._path, CONNECT_SECONDS)
            self._door.sendall(msgspec.json.encode(known) + b"\n")
        except OSError as error:
            self._lose(str(error))
            return False
        self._door.setblocking(False)
        self._heard = b""
        return True

    def _lose(self, why: str) -> None:
        """Without a connection for now; the next attempt waits, longer each time until the door has spoken."""
        self.close()
        self._is_lost = True
        if self._backoff == FIRST_BACKOFF_SECONDS:
            self._log.warning("git_door.lost", path=self._path, why=why)
        self._try_at = time.monotonic() + self._backoff
        self._backoff = min(self._backoff * 2, LONGEST_BACKOFF_SECONDS)

    def _hear(self, door: socket.socket) -> bool:
        """Take what the door said; True when that is news."""
        try:
            piece = door.recv(4096)
            self._heard += piece
            if piece and not self._heard.endswith(b"\n"):
                return False
            told = msgspec.json.decode(self._heard, type=Answer)
            where = msgspec.json.decode(told.answer, type=Where)
        except BlockingIOError:
            return False
        except (OSError, msgspec.MsgspecError) as error:
            self._lose(f"{error}: {self._heard[:200]!r}")
            return False
        self.close()
        self._backoff = FIRST_BACKOFF_SECONDS
        self._has_returned, self._is_lost = self._has_returned or self._is_lost, False
        moved, self._last = where != self._last, where
        self._ask()  # at once, or a door that goes and comes meanwhile would pass unseen
        return moved
