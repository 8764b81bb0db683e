"""What the watcher is, what can happen to it, and what it can do: values and nothing else.

Kept apart from `decide` so that they can be read as a list."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec

from infra.shared import watcher_file
from infra.shared.active import Level, Runner
from infra.shared.watcher_file import BootRecord, Pin, Request, Trouble, Version, VersionFailures


class Instant(NamedTuple):
    monotonic: float
    wall: float


class Phase(Enum):
    STARTING = watcher_file.STARTING
    """No runner; something that leads to one is under way."""
    PREPARING = watcher_file.PREPARING
    """What is to be launched is being made ready or tried out, by processes that are no runner."""
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
    """From asking it to end (or its own signal) to ending it."""
    probation: float = 600.0
    """From SUCCESS until a version counts as one that can live."""
    hops: int = 6
    """So often within `HOPS_SECONDS` a branch may lead while main stays the same version."""
    make_way: float = 300.0
    """From another main to the end of a runner that does not make way for it by itself."""


class Hop(NamedTuple):
    """A branch was launched."""

    at: float
    """Monotonic."""
    branch: str
    main: str
    """The version that main held."""


UNSEEN = Version()
"""Main, before it was looked at."""


class State(msgspec.Struct, frozen=True):
    phase: Phase
    since: Instant
    """Start of this phase."""
    patience: Patience
    deadline: float | None = None
    """Monotonic: when `TimeIsUp` is due."""
    runner: Runner | None = None
    """Set while a runner is alive."""
    request: Request | None = None
    """The signal to carry out once no runner is alive."""
    failed: str = ""
    """Why the runner that is being ended has failed; empty when it is ended for another reason."""
    preparing: str = ""
    """The branch whose launch waits; it means something while preparing."""
    may_leave: str = ""
    """The boot that has signalled for something that there is not; if it leaves for it, it is not to blame."""
    unwell: str = ""
    """What was wrong with the runner when it was last asked; a second time in a row ends it."""
    failures: int = 0
    """Failures in a row of whoever led without being asked for."""
    main: Version = UNSEEN
    make_way_by: float | None = None
    """Monotonic: main holds other code than the runner was launched for, and by then it is to be gone."""
    known_good: tuple[Version, ...] = ()
    withdrawn: tuple[str, ...] = ()
    """Ids of versions that the PM has rolled back from or rejected."""
    pardoned: tuple[str, ...] = ()
    """Those among them that the PM allowed again."""
    pins: tuple[Pin, ...] = ()
    version_failures: tuple[VersionFailures, ...] = ()
    safe_mode_failures: int = 0
    """How often in a row not even safe mode could live."""
    stopping: bool = False
    broken: str = ""
    """Why the seal does not hold; then nothing is launched any more."""
    handled: str = ""
    hops: tuple[Hop, ...] = ()
    boots: tuple[BootRecord, ...] = ()
    troubles: tuple[Trouble, ...] = ()


# What happens.


class Started(NamedTuple):
    """The watcher begins; `found` is a runner of an earlier watcher that still lives."""

    found: Runner | None = None
    served: bool = False
    """`found` had already said SUCCESS."""
    age: float = 0.0
    """Seconds since `found` was started."""


class LaunchFound(NamedTuple):
    """An earlier watcher launched this branch, and was killed before it could note it."""

    branch: str


class Launched(NamedTuple):
    runner: Runner
    reason: str


class LaunchFailed(NamedTuple):
    branch: str
    why: str
    version: Runner | None = None
    """Who could not be launched, when that is this version's own fault and not an outage."""


class MainSeen(NamedTuple):
    """What main holds; the answer to LookAtMain."""

    main: Version
    reason: str
    withdrawn: tuple[str, ...] | None = None
    """Ids of versions that the PM has rolled back from or rejected; None when that is not known now."""


class MainUnseen(NamedTuple):
    """The shared repository could not be read."""

    why: str


class MainMoved(NamedTuple):
    """Seen while nobody asked."""

    main: Version
    withdrawn: tuple[str, ...] | None = None
    """As in `MainSeen`."""


class RetryAsked(NamedTuple):
    """The PM says that pinned versions may be tried again."""


class Preparing(NamedTuple):
    """Instead of Launched: something has to be done first, and has begun."""

    branch: str
    """Whose launch waits for it."""
    seconds: float
    """The longest that it may take."""


class Prepared(NamedTuple):
    """It is over; with nothing in the way, the launch is tried again."""

    launch: Launch
    why_not: str = ""
    guilty: Runner | None = None
    """Whose version's fault it is, when it is one's."""
    transcript: str = ""


class Served(NamedTuple):
    """This boot has said SUCCESS, and answered for itself through both doors."""

    boot_id: str


class Unwell(NamedTuple):
    """This boot did not answer as it should."""

    boot_id: str
    why: str
    certain: bool = False
    """No busy machine can be the reason, so it need not be seen twice."""


class Well(NamedTuple):
    """It does again."""

    boot_id: str


class Exceeded(NamedTuple):
    """This boot has taken more than it may, at two looks; it is to end."""

    boot_id: str
    why: str


class Observed(NamedTuple):
    """Something that the PM ought to know."""

    title: str
    text: str


class Died(NamedTuple):
    boot_id: str
    how: str
    """`exit status 1`, `SIGKILL`, …"""
    last_words: str = ""
    """The end of its error log."""
    served: bool = False
    """It had said SUCCESS, whether or not there was time to ask it."""
    outage: bool = False
    """What a runner depends on was not there: the death is no version's fault."""
    outside: bool = False
    """Nothing shows that it ended of itself: a signal from somebody else ended it, or nobody saw how (`SPEC_BOOT`). A
    version that has served its probation is not blamed for that."""


class Asked(NamedTuple):
    request: Request


class SignalRefused(NamedTuple):
    why: str
    identity: str = ""
    """Of the refused file, which is found again when a watcher is killed before it could delete it."""
    may_leave: bool = False
    """Whoever wrote it could take it for carried out, and leave: that is no fault of its version."""


class RolledBack(NamedTuple):
    target: str
    commit: str


class RollbackFailed(NamedTuple):
    target: str
    why: str


class TimeIsUp(NamedTuple):
    pass


class SealUnproved(NamedTuple):
    """While this boot ran it could not be proved that the cell is kept in. It may be the boot's own doing."""

    boot_id: str
    why: str


class SealBroken(NamedTuple):
    """Nothing of the cell runs, and what keeps it in does not hold."""

    why: str


class OutageOver(NamedTuple):
    """What a runner depends on was not there when the last one failed, and is there again."""

    what: str


class StopAsked(NamedTuple):
    pass


Event = (
    Started
    | LaunchFound
    | Launched
    | LaunchFailed
    | MainSeen
    | MainUnseen
    | MainMoved
    | RetryAsked
    | Preparing
    | Prepared
    | Unwell
    | Well
    | Exceeded
    | Observed
    | Served
    | Died
    | Asked
    | SignalRefused
    | RolledBack
    | RollbackFailed
    | TimeIsUp
    | SealUnproved
    | SealBroken
    | OutageOver
    | StopAsked
)


# What to do about it.


class LookAtMain(NamedTuple):
    """Answered by MainSeen or MainUnseen."""

    reason: str
    """For the launch that follows."""


class Launch(NamedTuple):
    """Answered by Launched or LaunchFailed."""

    branch: str
    reason: str
    level: Level = Level.BRANCH
    commit: str = ""
    """What main's clone is to be brought to; empty for a branch, which is launched as it lies there."""
    instead_of: str = ""
    """The commit of main that this launch stands in for."""
    launched_for: str = ""
    """See `Runner`."""


class AskToEnd(NamedTuple):
    runner: Runner


class EndNow(NamedTuple):
    runner: Runner


class Sweep(NamedTuple):
    """End every descendant that a runner left behind; returns when there is none."""


class RollBack(NamedTuple):
    """Answered by RolledBack or RollbackFailed."""

    target: str


class Tell(NamedTuple):
    """Append a report to COMMS.md."""

    title: str
    text: str
    about: str = ""
    """Names what happened, where it can be seen twice: it is told once."""


class Leave(NamedTuple):
    """End the watcher; no runner is alive."""


Action = LookAtMain | Launch | AskToEnd | EndNow | Sweep | RollBack | Tell | Leave
Decision = tuple[State, list[Action]]
