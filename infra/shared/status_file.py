"""What a runner reports about itself, in a file of its checkout: shown by `minifram status`, never used to judge it."""

from __future__ import annotations

import json
from typing import NamedTuple

from infra.shared.files import write_whole

SCHEMA = "minifram.life/1"
BOOTING, VALIDATING, WORKING, SLEEPING, LEAVING = "booting", "validating", "working", "sleeping", "leaving"


class RunnerStatus(NamedTuple):
    doing: str
    """One of the words above."""
    since: str
    """Wall time, as `clock.timestamp` writes it."""
    unit: str = ""
    """First line of the directive in work; empty when there is none."""
    steps: int = 0
    until: str = ""
    """When sleeping: the next tick at the latest."""
    last_error: str = ""


def write_status(path: str, status: RunnerStatus) -> None:
    write_whole(path, json.dumps({"schema": SCHEMA} | status._asdict()).encode())
