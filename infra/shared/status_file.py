"""What a runner reports about itself, in a file of its checkout: shown by `minifram status`, never used to judge it."""

from __future__ import annotations

import json
from typing import NamedTuple

from infra.shared.files import write_whole

SCHEMA = "minifram.life/1"
BOOTING, VALIDATING, WORKING, SLEEPING, LEAVING = "booting", "validating", "working", "sleeping", "leaving"
WAITING = "waiting"
"""For a model that does not answer, in the middle of a run."""


class RunnerStatus(NamedTuple):
    doing: str
    """One of the words above."""
    since: str
    """Wall time, as `clock.timestamp` writes it."""
    unit: str = ""
    """First line of the directive in work; empty when there is none."""
    steps: int = 0
    until: str = ""
    """When sleeping or waiting: the next tick or try at the latest."""
    last_error: str = ""
    waits: str = ""
    """For what open directives wait; empty when they do not."""
    services: str = ""
    """What the agent keeps running, in words; empty for nothing."""


def write_status(path: str, status: RunnerStatus) -> None:
    write_whole(path, json.dumps({"schema": SCHEMA} | status._asdict()).encode())
