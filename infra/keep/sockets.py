"""Unix sockets that the keep's programs listen on."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping

from infra.shared.door import connect

MAX_PATH_BYTES = 107
"""unix(7): sun_path holds 108 bytes with its closing zero."""


VARIABLE = "MINIFRAM_SOCKETS"
"""`web=5 packages=6`: names and descriptors that a program inherits. systemd's LISTEN_PID would need the pid before
there is one."""


def inherited(environment: Mapping[str, str]) -> dict[str, socket.socket]:
    """Raises ValueError and OSError."""
    given = dict(word.split("=", 1) for word in environment.get(VARIABLE, "").split())
    return {name: socket.socket(fileno=int(number)) for name, number in given.items()}


class SocketTaken(Exception):
    """Another running program listens at this path, or something that is not a socket is there."""


def listen(path: str) -> socket.socket:
    """A listening stream socket at `path`, mode 0666 in a directory that decides who gets in; a dead one is replaced.

    Raises SocketTaken, and ValueError for a path that the kernel cannot hold."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ValueError(f"socket path {path} is over {MAX_PATH_BYTES} bytes; choose a shorter run directory")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.lexists(path):
            _remove_dead(path)
        server.bind(path)
        server.listen(64)
        os.chmod(path, 0o666)  # noqa: S103 - who may reach it is decided by its directory
    except BaseException:
        server.close()
        raise
    return server


def _remove_dead(path: str) -> None:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise SocketTaken(f"{path} is not a socket; expected a socket or nothing there: move it away")
    try:
        connect(path, 1.0).close()
    except (ConnectionRefusedError, FileNotFoundError):
        os.unlink(path)
    except OSError as error:  # a full queue or a refusal to us: the listener is alive
        raise SocketTaken(f"{path} is in use by another program that is busy ({error.strerror}); try again") from None
    else:
        raise SocketTaken(f"{path} is in use by another program; is this agent already running?")
