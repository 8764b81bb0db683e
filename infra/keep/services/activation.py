"""Sockets that the watcher listens on for a program that it starts when somebody waits there.

A program that is not needed costs nothing so; who connects while it starts, or is replaced, waits in the kernel's
queue. The program inherits the sockets: a variable of its environment says which is which."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Mapping

from infra.shared.sockets import SocketTaken, listen

VARIABLE = "MINIFRAM_SOCKETS"
"""`web=5 packages=6`: names and descriptors. systemd's LISTEN_PID would need the pid before there is one."""
QUEUE = 64

Place = str | tuple[str, int]
"""The path of a unix socket, or host and port."""


class Listening:
    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = dict(places)
        self._open: dict[str, tuple[socket.socket, tuple[int, ...]]] = {}

    def open(self) -> None:
        """All that are not open, or whose file somebody removed or replaced. Raises OSError."""
        for name, place in self._places.items():
            if name in self._open and self._open[name][1] == _mark(place):
                continue
            if name in self._open:
                self._open.pop(name)[0].close()
            try:
                made = listen(place) if isinstance(place, str) else _listen_at(place)
            except (SocketTaken, ValueError) as error:
                raise OSError(str(error)) from None
            self._open[name] = (made, _mark(place))

    def is_waited_at(self) -> bool:
        poll = select.poll()
        for descriptor in self.fds():
            poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def fds(self) -> tuple[int, ...]:
        return tuple(made.fileno() for made, _ in self._open.values())

    def variable(self) -> dict[str, str]:
        """For the environment of the program, which is to inherit `fds`."""
        return {VARIABLE: " ".join(f"{name}={made.fileno()}" for name, (made, _) in self._open.items())}

    def close(self) -> None:
        """For good: nothing is left at a path that was ours."""
        for name, (made, mark) in self._open.items():
            place = self._places[name]
            made.close()
            if isinstance(place, str) and _mark(place) == mark:
                with contextlib.suppress(OSError):
                    os.unlink(place)
        self._open.clear()


def inherited(environment: Mapping[str, str]) -> dict[str, socket.socket]:
    """In the program: the sockets by their names. Raises ValueError and OSError."""
    given = dict(word.split("=", 1) for word in environment.get(VARIABLE, "").split())
    return {name: socket.socket(fileno=int(number)) for name, number in given.items()}


def _mark(place: Place) -> tuple[int, ...]:
    """Tells whether a path still leads to the very socket."""
    if not isinstance(place, str):
        return ()
    try:
        found = os.lstat(place)
    except OSError:
        return (0,)
    return (found.st_dev, found.st_ino)


def _listen_at(place: tuple[str, int]) -> socket.socket:
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(QUEUE)
    except BaseException:
        made.close()
        raise
    return made
