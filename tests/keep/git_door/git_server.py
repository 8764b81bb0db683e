"""The door's `git daemon`, really listening, on a port of loopback that is free."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from pathlib import Path

from infra.keep.git_door import setup
from infra.keep.git_door.setup import memory_bytes
from tests.keep.git_door.world import BLOB_BYTES, World, until


class Server:
    """A world whose agent reaches the door by git://."""

    def __init__(self, root: Path, like: World | None = None) -> None:
        self.world = World(root, by_daemon=True, like=like)
        self.port = lasting_port()
        self.log = root / "daemon.log"
        self.start(setup.daemon_command(self.world.places, self.port, memory_bytes(BLOB_BYTES)))
        self.url = setup.url(self.world.places, self.port)
        self.world.agent.git("remote", "set-url", "origin", self.url)

    def start(self, words: list[str]) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                words,
                env=setup.daemon_environment(self.world.places, BLOB_BYTES),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        assert until(self.is_up), self.log.read_text()

    def is_up(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 20.0)

    def say(self, request: bytes) -> bytes:
        """All that comes back for one request, as it goes over the wire."""
        with self.connect() as wire:
            wire.sendall(pkt(request))
            wire.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: wire.recv(65536), b""))

    def stop(self) -> None:
        """The daemon alone; the door goes on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        self.stop()
        self.world.close_door()


def lasting_port() -> int:
    """A port of loopback that is free, and that no connection of another test takes while the server is down: the
    kernel gives those from ip_local_port_range(7)."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.SystemRandom().sample(range(10_000, lowest), 100):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"none of 100 ports from 10,000 to {lowest:,} is free")


def pkt(line: bytes) -> bytes:
    """gitprotocol-common(5): a line with its length before it."""
    return b"%04x" % (len(line) + 4) + line
