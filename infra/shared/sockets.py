"""Unix sockets that our programs listen on and speak to."""

from __future__ import annotations

import os
import socket
import stat
import struct

MAX_PATH_BYTES = 107
"""unix(7): sun_path holds 108 bytes with its closing zero."""


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


def connect(path: str, timeout_seconds: float) -> socket.socket:
    """A connection to `path`. Raises OSError.

    While the queue there is full it waits in line, as a socket with Python's own timeout does not (connect(2), EAGAIN):
    that one is refused at once, for as long as others keep the queue full."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        wait_in_line(client, timeout_seconds)
        client.connect(path)
        client.settimeout(timeout_seconds)
    except BlockingIOError:
        client.close()
        raise TimeoutError(f"the queue at {path} was full for {timeout_seconds:g} s") from None
    except BaseException:
        client.close()
        raise
    return client


def wait_in_line(client: socket.socket, seconds: float) -> None:
    """Limit connect(2) and send(2) of a blocking socket to `seconds` (socket(7), SO_SNDTIMEO)."""
    whole, part = divmod(max(1, round(seconds * 1_000_000)), 1_000_000)  # 0 would mean for ever
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", whole, part))


def control_address(boot_id: str) -> str:
    """Where a runner answers probes: an abstract name (unix(7)), which leaves no file and ends with its process."""
    return f"\0minifram-{boot_id}"


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
