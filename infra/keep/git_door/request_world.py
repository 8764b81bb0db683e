"""What the verbs of the git door's request socket have to do with: places, settings, time, and the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from structlog.typing import FilteringBoundLogger

from infra.shared.places import Places
from infra.shared.requests import Report
from infra.shared.settings import Settings


def no_evidence(_: Report) -> str:
    return ""


def nothing() -> None:
    return


class World(NamedTuple):
    places: Places
    settings: Settings
    log: FilteringBoundLogger
    wall_seconds: Callable[[], float] = time.time
    evidence_for: Callable[[Report], str] = no_evidence
    """What the keep saw itself of the work that a report tells of; stands under the report's words."""
    unit_done: Callable[[], None] = nothing
    """The report that was looked at last is on main and ended a unit of work: what comes now counts for the next."""
