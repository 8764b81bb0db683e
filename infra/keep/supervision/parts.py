"""The components of one watcher, and the state that observing and acting share: the event queue, which processes must
not be swept, and whether an outage explains a failure."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import psutil
import structlog

from infra.keep.mind.keeper import MindKeeper
from infra.keep.services import processes
from infra.keep.services.front import DoorFiles
from infra.keep.services.services import Services, outage
from infra.keep.settings import Settings
from infra.keep.supervision import inbox
from infra.keep.supervision.absence import Absence
from infra.keep.supervision.attempts import Attempts
from infra.keep.supervision.decide.events import (
    Action,
    Event,
    LaunchFailed,
    LaunchReady,
    Preparing,
    RetryAsked,
)
from infra.keep.supervision.decide.state import Instant, State
from infra.keep.supervision.examining import Examining
from infra.keep.supervision.following import Following, brief
from infra.keep.supervision.health import Health
from infra.keep.supervision.launching import Launcher
from infra.keep.supervision.limit_watch import LimitWatch
from infra.keep.supervision.memory import WatcherMemory
from infra.keep.supervision.preparation import Preparation
from infra.keep.supervision.reports import Reports
from infra.keep.supervision.shared_main import SharedMain
from infra.keep.supervision.stale_locks import StaleLocks
from infra.keep.supervision.unchanged import Unchanged
from infra.keep.supervision.wake import Wake
from infra.keep.supervision.zones import Zones
from infra.shared.control import longest_promise
from infra.shared.safe_files import OLDER

LAUNCHES = (Preparing, LaunchReady, LaunchFailed)
"""Answers to a launch."""


def now() -> Instant:
    return Instant(time.monotonic(), time.time())


class Queued(NamedTuple):
    event: Event
    claimed: inbox.Claimed | None = None
    """The signal file that it comes from."""


class Parts:
    """The components of the watcher of one agent."""

    def __init__(self, settings: Settings, zones: Zones, log: structlog.stdlib.BoundLogger):
        self.settings, self.zones, self.places, self.log = settings, zones, zones.places, log
        self.queue: deque[Queued] = deque()
        self.decided: list[inbox.Claimed] = []
        """Signals that were acted on; their files are deleted once that is written to disk."""
        self.outage = ""
        """What was missing when the last runner died or could not be launched."""
        self.launched_at = time.monotonic()
        """When the last launch began."""
        self.adopted = False
        """The runner was started by an earlier watcher, so its orphans are not our descendants."""
        self.unswept = ""
        """Why processes that a runner left behind may still be there."""
        self.wake = Wake(log)
        self.services = Services(zones.services, zones.places, settings.limits.log_bytes, log)
        self.door_files = DoorFiles(zones.places, settings, zones.cell, zones.by_daemon)
        self.main = SharedMain(zones.places, log)
        self.inbox = inbox.Inbox(zones.places.signals, zones.cell)
        self.following = Following(zones.places, log, zones.cell)
        self.reports = Reports(zones.places, log)
        self.memory = WatcherMemory(zones.places.watcher_state, self.reports, log)
        self.preparation = Preparation(zones.places, zones.cell, log, zones.also)
        self.launcher = Launcher(settings, zones, self.services, self.preparation)
        longest = longest_promise(zones.timing.limits_of(settings))
        self.health = Health(zones.places, self.following, longest, zones.pace, log)
        self.examining = Examining(settings, zones, self.preparation.is_fit, self.keep_pids, log)
        self.limit_watch = LimitWatch(
            self.launcher.clones, zones.timing.bounds_of(settings), self.following, self.keep_pids, log
        )
        self.attempts = Attempts(self.launcher.clones.files, zones.places, log)
        self.stale_locks = StaleLocks(zones.places, log)
        self.older_trace = Unchanged(f"{zones.places.web_trace}{OLDER}")
        self.mind = MindKeeper(zones.places, zones.cell, settings.mind.on_drift, log)
        self.absence = Absence()

    def enqueue(self, *events: Event, claimed: inbox.Claimed | None = None) -> None:
        self.queue.extend(Queued(event, claimed) for event in events)

    def keep_pids(self) -> frozenset[int]:
        """Processes of the keep, which are waited for elsewhere."""
        return self.services.pids() | self.preparation.pids() | self.examining.pids()

    def remember(self, state: State, actions: Iterable[Action] = ()) -> None:
        """Keep what changed, durably; then the files of the signals that were decided upon are not needed any more."""
        if not self.memory.keep(state, list(actions), now(), may_wait=not self.decided):
            return
        waiting = any(isinstance(each.event, RetryAsked) for each in self.queue)
        self.main.settle(state.known_good, retry_decided=not waiting)
        for claimed in self.decided:
            if not self.inbox.forget(claimed):
                self.log.error("signal.not_deleted", path=claimed.path)
        self.decided = []

    def outage_at(self, at: float, served: bool) -> str:
        """Why no version is to blame for a failure now. A boot may have waited for a door from its start on."""
        return outage(self.services, self.places, at, at if served else self.launched_at)

    def let_go(self) -> None:
        """Resume the cell if an examination holds it: only a running process can end."""
        at = time.monotonic()
        self.health.was_held(at, self.examining.let_go(at))

    def sweep(self) -> None:
        """End every process that a runner or a preparation left behind, and drop a launch that is under way."""
        self.let_go()
        self.preparation.cancel()
        # What it has already answered is void with it.
        self.queue = deque(each for each in self.queue if not isinstance(each.event, LAUNCHES))
        try:
            ended = processes.sweep(self.services.pids() | self.examining.pids(), self.zones.cell)
            if self.adopted:
                with self.zones.cell.acting():
                    ended += processes.end_strays(self.places, "")
                self.adopted = False
        except (TimeoutError, psutil.Error, OSError) as error:
            self.log.error("sweep.incomplete", reason=str(error))
            self.unswept = brief(error)
            return
        self.unswept = ""
        if ended:
            self.log.warning("descendants.ended", processes=ended)

    def seal_problem(self) -> str:
        """Why the seal does not hold, asked while nothing of the cell runs; empty when it does."""
        why = self.zones.proof()
        if why:
            self.log.critical("seal.broken", reason=why)
        return why
