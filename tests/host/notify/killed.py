"""`killed.py OUT POINT`: a sender that is killed at a step of its work, and notes notifications in OUT.

POINT is `before N` or `after N` (the Nth time that the memory is written), `begun N` (the Nth attempt has begun) or
`ended N` (it has ended, and nobody has noted that)."""

from __future__ import annotations

import os
import signal
import sys
import time

from host.notify.delivery import Attempt
from host.notify.state import Memory, Store
from host.paths import paths_of
from infra.shared.notify_settings import NotifySettings
from tests.host.notify.scene import sender

out, point, number = sys.argv[1:]
left = int(number)


def reach(here: str) -> None:
    global left
    left -= here == point
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


class Killed(Store):
    def write(self, memory: Memory) -> None:
        reach("before")
        super().write(memory)
        reach("after")


class Watching:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        reach("begun")

    def ended(self) -> str | None:
        why = self._attempt.ended()
        if why is not None:
            reach("ended")
        return why

    def give_up(self) -> None:
        self._attempt.give_up()


home = paths_of("agent", os.environ, os.getuid())
made = sender(home, NotifySettings(command=f"cat >>{out}"), store=Killed(home), begun=Watching)
until = time.monotonic() + 20
while time.monotonic() < until:
    made.step()
    time.sleep(0.01)
