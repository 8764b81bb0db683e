"""Ordinary work that must succeed under the fences, printed as JSON: `[{"work", "result"}, …]`; a result is `ok`. It is
what the filter lets through with some arguments alone, and what needs the container's memory; that every other call is
allowed, absent or refused by choice is read from the profile (`tests/sealed/test_profile.py`)."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import pty
import select
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def terminal() -> None:
    """Job control, size, echo."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execlp("bash", "bash", "-ic", "stty size; stty -echo; sleep 0.01 & fg; tput cols 2>/dev/null; echo done")
    fcntl.ioctl(terminal, 0x5414, struct.pack("HHHH", 24, 80, 0, 0))
    said = b""
    while select.select([terminal], [], [], 5)[0]:
        try:
            said += os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
    os.close(terminal)
    os.waitpid(pid, 0)
    if b"done" not in said:
        raise RuntimeError(f"the terminal said {said!r}")


def processes() -> None:
    """Locks and memory that several share; a program without a fork."""
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            if sum(pool.map(abs, range(-9, 1))) != 45:
                raise RuntimeError(method)
            pool.close()
            pool.join()
    os.posix_spawn("/usr/bin/true", ["true"], os.environ)
    os.wait()


def sockets() -> None:
    """IPv4, IPv6, and descriptors over a pair."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            try:
                one.bind((host, 0))
            except OSError as error:
                if family == socket.AF_INET6 and error.errno == 99:  # no address: IPv6 is off here
                    continue
                raise
            one.sendto(b"x", one.getsockname())
            one.recv(1)
    left, right = socket.socketpair()
    with left, right, tempfile.TemporaryFile() as file:
        socket.send_fds(left, [b"x"], [file.fileno()])
        _, (received,), _, _ = socket.recv_fds(right, 1, 1)
        os.close(received)


def files() -> None:
    """FIFOs, and plain ones by mknod."""
    with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as folder:
        os.mkfifo(Path(folder, "fifo"))
        os.mknod(Path(folder, "plain"))


def _result(work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as error:
        return repr(error)
    return "ok"


if __name__ == "__main__":
    works = (terminal, processes, sockets, files)
    json.dump([{"work": work.__name__, "result": _result(work)} for work in works], sys.stdout)
