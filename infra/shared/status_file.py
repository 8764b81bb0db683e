"""What a runner reports about itself, in a file of its checkout: shown by `minifram status`, never used to judge it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from infra.shared.redacted_file import RedactedFile

SCHEMA = "minifram.life/1"
BOOTING, VALIDATING, WORKING, SLEEPING, LEAVING = "booting", "validating", "working", "sleeping", "leaving"
WAITING = "waiting"
"""For a model that does not answer, in the middle of a run."""

SERVICES_SHARE = 0.25
"""Of the memory and of the processors that the cell may use, so much for all services together."""


class RunnerStatus(NamedTuple):
    doing: str
    """One of the words above."""
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


def write_status(path: str, status: RunnerStatus) -> None:
    RedactedFile(path).replace_json({"schema": SCHEMA} | status._asdict())


def read_runner_status(content: bytes) -> RunnerStatus | None:
    """None for what `write_status` does not write: anybody in the cell may have written it."""
    try:
        raw: Any = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        return None
    known = {key: raw[key] for key in RunnerStatus._fields if key in raw}
    sound = all(isinstance(value, int if key == "steps" else str) for key, value in known.items())
    return RunnerStatus(**known) if sound and {"doing", "since"} <= known.keys() else None
