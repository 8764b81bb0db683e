"""The state of the watcher as a frozen value, and the small steps that decisions are made of."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from infra.keep import watcher_file
from infra.keep.active import Runner
from infra.keep.watcher_file import Remembered, Trouble
from infra.shared.clock import timestamp

BOOTS_KEPT, TROUBLES_KEPT = 20, 10
BOOTSTRAP = "bootstrap"
"""The reason of a launch that a signal asked for."""


class Instant(NamedTuple):
    monotonic: float
    """Durations are taken on this clock."""
    wall: float
    """Only written down, for people."""


class Phase(Enum):
    STARTING = watcher_file.STARTING
    """No runner; something that leads to one is under way."""
    PREPARING = watcher_file.PREPARING
    """A launch is being prepared by other processes: its environment is installed, or it is rehearsed."""
    BOOTING = watcher_file.BOOTING
    RUNNING = watcher_file.RUNNING
    ENDING = watcher_file.ENDING
    WAITING = watcher_file.WAITING
    STOPPED = watcher_file.STOPPED


class Patience(NamedTuple):
    """How long to wait for a runner, in seconds."""

    boot: float
    """From launch to SUCCESS."""
    grace: float
    """From asking it to end, or its own signal, to ending it."""
    probation: float = 600.0
    """From SUCCESS until its version is known to be good."""
    hops: int = 6
    """How often within `HOPS_SECONDS` a branch may run while main stays the same version."""
    make_way: float = 300.0
    """From a change of main to the end of a runner that does not make way by itself."""


class State(Remembered, frozen=True):
    """With what an earlier watcher remembered."""

    phase: Phase
    since: Instant
    """Start of this phase."""
    patience: Patience
    deadline: float | None = None
    """Monotonic: when `TimeIsUp` is due."""
    runner: Runner | None = None
    """Set while a runner is alive."""
    attempt: Runner | None = None
    """The launch that is recorded and whose process is not known yet."""
    failed: str = ""
    """Why the runner that is being ended has failed; empty when it is ended for another reason."""
    preparing: str = ""
    """The branch whose launch is prepared; it has a meaning in PREPARING only."""
    may_leave: str = ""
    """The boot that signalled for something that does not exist; it is not to blame if it exits for that."""
    unwell: str = ""
    """What was wrong at the last probe; a second time in a row ends the runner."""
    make_way_by: float | None = None
    """Monotonic: main has changed since the runner was launched, and the runner must be gone by then."""
    stopping: bool = False
    broken: str = ""
    """Why the seal does not hold; then nothing is launched any more."""
    drifted: str = ""
    """Why nothing but safe mode is launched now: what of the mind is the PM's alone is not as the PM wrote it."""
    hops: tuple[tuple[float, str, str], ...] = ()
    """Launches of branches: when (monotonic), which branch, and the version that main held."""

    def entered(self, phase: Phase, now: Instant, deadline: float | None = None) -> State:
        """A phase begins, and has to end by `deadline`."""
        return replace(self, phase=phase, since=now, deadline=deadline)

    def settled(self) -> State:
        """The request is carried out, or given up; its file may be found once more."""
        return replace(self, request=None, handled=self.request.identity if self.request else self.handled)

    def noted(self, text: str, now: Instant) -> State:
        """For `minifram status`."""
        return replace(self, troubles=(*self.troubles, Trouble(at=timestamp(now.wall), text=text))[-TROUBLES_KEPT:])

    def recorded(self, boot_id: str, outcome: str, detail: str, now: Instant) -> State:
        """The outcome of a boot."""
        changes = {
            "outcome": outcome,
            "ended_at": "" if outcome == "success" else timestamp(now.wall),
            "detail": detail,
        }
        return replace(self, boots=tuple(replace(b, **changes) if b.id == boot_id else b for b in self.boots))

    def is_current(self, boot_id: str) -> bool:
        return self.runner is not None and self.runner.boot_id == boot_id

    def may_fail(self) -> bool:
        """A runner boots or serves, and nothing ends it already."""
        return self.phase in (Phase.BOOTING, Phase.RUNNING) and not (self.stopping or self.request or self.failed)

    def leave_by(self, now: Instant) -> float | None:
        """A runner that has signalled has to exit within the grace."""
        return now.monotonic + self.patience.grace if self.request else None
