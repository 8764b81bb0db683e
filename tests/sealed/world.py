"""A world for a sealed container that has no network: the far end of `tests/egress`, in a namespace of its own, and the
one link between the two. No packet leaves the machine."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import IO, Any

from tests.egress.peer import ask
from tests.egress.wire import Packet
from tests.sealed.support.agent import SealedAgent


class World:
    def __init__(self, stdin: IO[str], stdout: IO[str]) -> None:
        self._pipes = stdin, stdout

    def ask(self, call: str, **words: Any) -> Any:
        return ask(*self._pipes, call, words)

    def arrived(self) -> set[tuple[str, int]]:
        """Where the packets were going that came since the last time: address and port."""
        return {(packet.destination, packet.port) for packet in (Packet(*one) for one in self.ask("take"))}


@contextlib.contextmanager
def world_of(agent: SealedAgent) -> Iterator[World]:
    """Joined to the container as it runs now: it is made anew with each start."""
    user, pid = agent.user, agent.pid()
    program = agent.project.command("tests.egress.far_end")
    with user.popen(*user.command("unshare", "unshare", "--net", *program)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        world = World(process.stdin, process.stdout)
        try:
            world.ask("join", cell_pid=pid)
            for command in ("addr add 10.0.2.100/24 dev c0", "link set c0 up", "route add default via 10.0.2.2"):
                agent.podman("unshare", "nsenter", f"--target={pid}", "--net", "ip", *command.split())
            yield world
        finally:
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
