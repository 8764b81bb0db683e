"""The real watcher with its steps timed: `python timed_watcher.py SPANS-FILE <the watcher's arguments>`.

Only the functions that the watcher calls are wrapped, so each span is one step of the watcher's loop."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

WAIT = "wait"
LAUNCH = "fork and exec"


class Span(NamedTuple):
    began: float
    ended: float
    name: str


def main(words: list[str]) -> int:
    # Here, because the bench imports this module for `Span` alone.
    from infra import watcher
    from infra.keep.environments import store
    from infra.keep.services import children, processes
    from infra.keep.services.services import Services
    from infra.keep.supervision import checkouts, inbox, launching, memory
    from infra.keep.supervision.health import Health
    from infra.keep.supervision.limit_watch import LimitWatch
    from infra.keep.supervision.observe import Observer
    from infra.keep.supervision.shared_main import SharedMain
    from infra.shared import boot_files

    output = os.open(words[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def timed(owner: ModuleType | type, attribute: str, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, attribute)

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            began = time.clock_gettime(time.CLOCK_MONOTONIC)
            try:
                return function(*given, **named)
            finally:
                span = Span(began, time.clock_gettime(time.CLOCK_MONOTONIC), name)
                os.write(output, (json.dumps(span) + "\n").encode())

        setattr(owner, attribute, call)

    timed(Services, "tend", "look at the doors")
    timed(inbox, "claim", "claim the signal file")
    timed(inbox, "forget", "delete the claimed file")
    timed(Observer, "_wait", WAIT)
    timed(boot_files, "boot_words", "read the boot log")
    timed(boot_files, "last_words", "read the error log")
    timed(memory, "save", "write watcher.json durably")
    timed(processes, "sweep", "look for processes left behind")
    timed(checkouts, "ready", "git: look at the clone")
    timed(boot_files, "open_error_log", "open the error log")
    timed(children, "spawn", LAUNCH)
    timed(processes, "start_time", "read the start time")
    timed(SharedMain, "look", "look at main's ref and for the PM's retry")
    timed(SharedMain, "keep", "git: keep the good versions")
    timed(launching, "candidate_of", "git: name the version")
    timed(store, "select", "look for its environment")
    timed(Health, "look", "health")
    timed(LimitWatch, "look", "limits")
    return watcher.main(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
