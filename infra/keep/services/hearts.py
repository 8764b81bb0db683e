"""Whether a program that the watcher started still lives: it promises when it is heard of again (`shared.heart`)."""

from __future__ import annotations

import contextlib
import socket
from typing import NamedTuple

import msgspec

from infra.shared.heart import VARIABLE
from infra.shared.text import cut

MESSAGE_BYTES = 4096
MOST_AT_ONCE = 500
"""Messages; the kernel keeps fewer (socket(7), SO_SNDBUF), but a sender may go on while they are read."""
DOING_CHARS = 80
LONGEST_SECONDS = 86400.0
"""A promise of more is one of so many: none is for ever."""


class Beat(msgspec.Struct, frozen=True):
    """What a program says. It wrote this itself."""

    doing: str
    within: float


class Heard(NamedTuple):
    at: float
    """When it was last heard of, on the watcher's clock."""
    beat: Beat


def overdue(last: Heard, now: float) -> str:
    """Which promise is broken, in words; empty while none is."""
    silent, within = now - last.at, min(last.beat.within, LONGEST_SECONDS)
    if silent <= within:
        return ""
    doing = cut(ascii(last.beat.doing), DOING_CHARS)
    return f"it was last heard of {silent:.0f} s ago while {doing}; it had promised {within:.0f} s"


class Heartbeat:
    """The watcher's end, for one process. Nobody else has the other one, so who beats need not be asked."""

    def __init__(self, now: float, within: float) -> None:
        """`within`: seconds in which the first beat is due. Raises OSError."""
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.last = Heard(now, Beat("starting", within))

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the process is to inherit; `started` closes it here."""
        return (self._theirs.fileno(),)

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: str(self._theirs.fileno())}

    def started(self) -> None:
        self._theirs.close()

    def listen(self, now: float) -> Heard:
        """The last beat, of those that have come."""
        with contextlib.suppress(OSError):  # there is no more, or nobody is left to send any
            for _ in range(MOST_AT_ONCE):
                said = self._ours.recv(MESSAGE_BYTES)
                with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                    self.last = Heard(now, msgspec.json.decode(said, type=Beat))
        return self.last

    def close(self) -> None:
        self._theirs.close()
        self._ours.close()
