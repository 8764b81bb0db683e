"""What answers to requests work with: places, settings, time, the log, and what is remembered between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from structlog.typing import FilteringBoundLogger

from infra.keep.allowance import Allowance
from infra.keep.door_server import Refusal
from infra.keep.git_door.record import WorkRecord
from infra.keep.mind.events import EventLog
from infra.keep.same_trouble import SameTrouble
from infra.keep.settings.schema import Settings
from infra.keep.taint import Taint, look
from infra.shared.door import Failure
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git

GIT_SECONDS = 50.0
"""For all git calls of one report or question; its client waits a little longer."""
AT_ONCE, SECONDS_EACH = 300, 10.0
"""So many reports are taken at once, then one in so many seconds: each is a commit, and the cell may go on for ever."""


@dataclass(frozen=True)
class DoorContext:
    places: Paths
    settings: Settings
    log: FilteringBoundLogger
    wall_seconds: Callable[[], float] = time.time
    trouble: SameTrouble = field(default_factory=SameTrouble)
    allowance: Allowance = field(default_factory=lambda: Allowance(AT_ONCE, SECONDS_EACH))

    @cached_property
    def record(self) -> WorkRecord:
        """What the keep saw itself of the work that a report is about; stands under the report's words."""
        return WorkRecord(self.places, self.log, self.wall_seconds)

    @cached_property
    def events(self) -> EventLog:
        """Raises OSError."""
        return EventLog(self.places)

    def taint(self, git: Git | None = None) -> Taint | None:
        return look(self.places.var, git or self.git(), self.wall_seconds()) if self.settings.web.taints else None

    def git(self) -> Git:
        """The bare repository, in the agent's name."""
        return Git(self.places.remote, AGENT).within(GIT_SECONDS)


def refused(why: str) -> Refusal:
    """To be raised. For good: sending it again unchanged is pointless."""
    return Refusal(Failure("refused", why))


def later(why: str) -> Refusal:
    """To be raised. Not possible now; the same request may succeed later."""
    return Refusal(Failure("unavailable", why, retriable=True))
