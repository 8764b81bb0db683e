"""The watcher that stops itself (SIGSTOP) right before a step of its own, so that the test can cut the power there.

Run as a program, with a watcher's words; STOPS_AT names the step, and a file that has to be there. Python tells of each
call before it is made (sys.addaudithook), so that the watcher itself holds nothing for tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from infra.watcher import watch
from tests.keep.supervision.timed_watcher import timed_zones

PROGRAM, STOPS_AT = "tests.faults.stopping_watcher", "STOPS_AT"
_Is = Callable[[str, tuple[Any, ...]], bool]
STEPS: dict[str, _Is] = {
    # The signal was renamed by the watcher, and nothing of it noted.
    "claimed": lambda event, args: event == "open" and str(args[0]).endswith(".claimed-bootstrap"),
    # The attempt is noted, and no process made.
    "attempt noted": lambda event, args: event == "subprocess.Popen" and "infra.runner" in args[1],
    # A new clone of main lies beside its place.
    "clone made": lambda event, args: event == "os.rename" and os.path.basename(str(args[1])) == "minifram",
}


def _stop_at(step: _Is, armed: str) -> None:
    def hook(event: str, args: tuple[Any, ...]) -> None:
        if step(event, args) and os.path.exists(armed):
            os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(hook)


if __name__ == "__main__":
    name, _, file = os.environ.get(STOPS_AT, "").partition(":")
    if name in STEPS:
        _stop_at(STEPS[name], file)
    sys.exit(watch(timed_zones(sys.argv[1:])))
