"""What can happen to the watcher, by subject, and what it can do about it: values and nothing else."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.active import Level, Runner
from infra.keep.supervision.decide.state import State
from infra.keep.watcher_file import SignalRequest, Version


# Boot: from a launch to the end of its runner.
class Started(NamedTuple):
    """The watcher begins; `found` is a runner of an earlier watcher that still lives."""

    found: Runner | None = None
    served: bool = False
    """`found` had already said SUCCESS."""
    age: float = 0.0
    """Seconds since `found` was started."""
    launched: str = ""
    """The branch that an earlier watcher launched, and was killed before it could record the process."""


class Preparing(NamedTuple):
    """The launch needs another process first, which has begun and may take so many seconds."""

    branch: str
    seconds: float


class LaunchReady(NamedTuple):
    """Ready to start. The attempt is recorded first, so that a crash in between does not hide it."""

    runner: Runner
    """As it will be, without its pid."""
    reason: str


class Launched(NamedTuple):
    runner: Runner


class LaunchFailed(NamedTuple):
    """Also when main could not be read."""

    branch: str
    why: str
    guilty: Runner | None = None
    """The version that could not be launched, when it is at fault and no outage."""
    transcript: str = ""
    commit: str = ""
    """Of what was to be launched, when it is known."""


class Died(NamedTuple):
    boot_id: str
    how: str
    """`exit status 1`, `SIGKILL`, …"""
    last_words: str = ""
    """The end of its error log."""
    served: bool = False
    """It had said SUCCESS, whether or not it was probed since."""
    outage: bool = False
    """Something that every runner depends on was missing: no version is at fault."""
    outside: bool = False
    """Nothing shows that it ended of itself: a signal from elsewhere ended it, or nobody saw how (`SPEC_BOOT`). A
    version that has served its probation is not blamed for that."""


# Health.
class Probed(NamedTuple):
    """The runner was asked whether it works; the first good answer ends its boot."""

    boot_id: str
    problem: str = ""
    """Empty when the runner is well."""


class OutageOver(NamedTuple):
    """The outage during which the last runner failed is over."""

    what: str


# Limits.
class MustEnd(NamedTuple):
    """This boot exceeded a limit in two samples in a row, or is stopped by SIGSTOP: no busy machine is the cause."""

    boot_id: str
    why: str


class Observed(NamedTuple):
    """Something to report to the PM."""

    title: str
    text: str


# The mind.
class MindDrifted(NamedTuple):
    """Files of the mind that are the PM's alone are not as the PM wrote them, and the PM wants safe mode for that."""

    why: str
    """Empty when they are right again."""


# Signals.
class Asked(NamedTuple):
    request: SignalRequest


class SignalRefused(NamedTuple):
    why: str
    identity: str = ""
    """Of the refused file, which is found again when a watcher is killed before it could delete it."""
    may_leave: bool = False
    """Its writer may take it for accepted, and exit: that is no fault of the version."""


# Seal.
class SealFailed(NamedTuple):
    """The check that the cell is sealed failed."""

    why: str
    boot_id: str = ""
    """The boot that ran meanwhile, and may have caused it; empty when nothing of the cell ran: the seal is broken."""


# Main.
class MainSeen(NamedTuple):
    """What main holds."""

    main: Version
    reason: str = ""
    """The reason given in LookAtMain, when this answers it; empty when main moved by itself."""
    withdrawn: tuple[str, ...] | None = None
    """Ids of versions that the PM has rolled back from or rejected; None when that is not known now."""


class RolledBack(NamedTuple):
    target: str
    commit: str = ""
    problem: str = ""
    """Why main was not rolled back; empty when it was."""


class RetryAsked(NamedTuple):
    """The PM says that pinned versions may be tried again."""


# The watcher itself.
class TimeIsUp(NamedTuple):
    """The state's deadline has passed."""


class StopAsked(NamedTuple):
    pass


BootEvent = Started | Preparing | LaunchReady | Launched | LaunchFailed | Died
MainEvent = MainSeen | RolledBack | RetryAsked
Measured = Probed | OutageOver | MustEnd | Observed
Event = BootEvent | Measured | MindDrifted | Asked | SignalRefused | SealFailed | MainEvent | TimeIsUp | StopAsked


# Actions.
class LookAtMain(NamedTuple):
    """For a launch; answered by MainSeen, or LaunchFailed."""

    reason: str


class Launch(NamedTuple):
    """Prepare a launch; answered by LaunchReady or LaunchFailed, perhaps after Preparing."""

    branch: str
    reason: str
    level: Level = Level.BRANCH
    commit: str = ""
    """The commit of main to run; empty for a branch, which is launched as its clone is."""
    instead_of: str = ""
    """The commit of main that this launch replaces."""
    launched_for: str = ""
    """See `Runner`."""


class StartRunner(NamedTuple):
    """Start the process that was prepared; answered by Launched or LaunchFailed."""

    runner: Runner


class End(NamedTuple):
    runner: Runner
    firmly: bool = False
    """With SIGKILL; before that it is asked with SIGTERM."""


class Sweep(NamedTuple):
    """End every process that a runner or a preparation left behind, and drop a launch that is being prepared."""


class RollBack(NamedTuple):
    """Answered by RolledBack."""

    target: str


class Tell(NamedTuple):
    """Report to the PM in COMMS.md."""

    title: str
    text: str
    about: str = ""
    """Names a subject that can be seen twice, and is reported once."""


class Leave(NamedTuple):
    """End the watcher; no runner is alive."""


Action = LookAtMain | Launch | StartRunner | End | Sweep | RollBack | Tell | Leave
Decision = tuple[State, list[Action]]
