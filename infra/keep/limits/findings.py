"""What the judge finds, as values: which rule, what was measured, and what is to be done about it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from infra.shared.active import Runner


class Rule(Enum):
    CPU = "cpu"
    TOKENS = "tokens"
    STEPS = "steps"
    LOGS = "logs"
    DISK = "disk"


class Remedy(Enum):
    TELL = "tell"
    """The PM is told; nothing is done."""
    TRIM_LOG = "trim log"
    """`Below.cut` of `path`."""
    TIDY = "tidy"
    """`room.choose` with room short, and `room.remove`."""
    END = "end"
    """The very runner that is named, and all that it started."""


class Finding(NamedTuple):
    rule: Rule
    remedy: Remedy
    measured: float
    limit: float
    seconds: float
    """For how long."""
    observations: int
    """Independent looks, or windows, in a row that said so."""
    text: str
    """For the PM."""
    runner: Runner | None
    """Boot, pid and start time of whom it is about: nobody else is to be ended for it."""
    path: str = ""
    """Of a log, below the agent's directory."""
