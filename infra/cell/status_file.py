"""What a runner reports about itself, in a file of its checkout: shown by `minifram status`, never used to judge it."""

from __future__ import annotations

from typing import Literal

import msgspec

from infra.shared.door import encoded
from infra.shared.redacted_file import RedactedFile

BOOTING, VALIDATING, WORKING, LEAVING = "booting", "validating", "working", "leaving"
WAITING = "waiting"
"""For a model that does not answer, in the middle of a run."""


class RunnerStatus(msgspec.Struct, frozen=True):
    doing: str
    """One of the words above, or SLEEPING."""
    since: str
    """Wall time, as `clock.timestamp` writes it."""
    about: str = ""
    """First line of the directive or task in work, or the branch of the hop; empty when there is none."""
    steps: int = 0
    until: str = ""
    """When sleeping or waiting: the next tick or try at the latest."""
    last_error: str = ""
    waits: str = ""
    """For what open directives wait; empty when they do not."""
    services: str = ""
    """What the agent keeps running, in words; empty for nothing."""
    state: str = ""
    """Of the run (`run_states.RunState`); empty when there is none."""
    schema: Literal["minifram.life/1"] = "minifram.life/1"


def write_status(path: str, status: RunnerStatus) -> None:
    RedactedFile(path).replace(encoded(status), durable=False)


def read_runner_status(content: bytes) -> RunnerStatus | None:
    """None for what `write_status` does not write: anybody in the cell may have written it."""
    try:
        return msgspec.json.decode(content, type=RunnerStatus)
    except (ValueError, RecursionError):
        return None
