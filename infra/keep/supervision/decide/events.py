"""What can happen to the watcher, and what it can do about it: values and nothing else."""

from __future__ import annotations

from typing import NamedTuple

from infra.keep.watcher_file import Level, Request, Runner, State, Version


class Started(NamedTuple):
    """The watcher begins, and no process of the cell is alive."""


class MainSeen(NamedTuple):
    main: Version
    goods: tuple[Version, ...]


class Ready(NamedTuple):
    """A launch is prepared: to be written down, then made."""

    runner: Runner
    """As it will be, without its pid."""
    reason: str


class Launched(NamedTuple):
    boot_id: str
    pid: int


class NotLaunched(NamedTuple):
    branch: str
    why: str
    guilty: Runner | None = None
    """The version at fault; None for an outage."""
    transcript: str = ""


class Served(NamedTuple):
    """SUCCESS stands in its boot log."""

    boot_id: str


class MustEnd(NamedTuple):
    """This boot exceeded a limit, or broke the promise of its heartbeat."""

    boot_id: str
    why: str


class Died(NamedTuple):
    boot_id: str
    how: str
    """`exit status 1`, `SIGKILL`, …"""
    last_words: str = ""
    """The end of its error log."""
    served: bool = False
    """SUCCESS stands in its boot log, whether or not that was seen before."""
    outage: str = ""
    """What every runner depends on and was missing: no version is at fault."""
    from_outside: bool = False
    """Nothing shows that it ended of itself. A version that has served its probation is not blamed for that."""


class Asked(NamedTuple):
    request: Request


class RolledBack(NamedTuple):
    """Main, as it is now, was seen before."""

    target: str
    commit: str = ""
    problem: str = ""
    """Why main was not rolled back; empty when it was."""


class RetryAsked(NamedTuple):
    """By the PM: every version may be tried again."""


class MindDrifted(NamedTuple):
    """Files of the mind that are the PM's alone are not as the PM wrote them; empty: they are right again."""

    why: str


class Observed(NamedTuple):
    """Something to tell the PM."""

    title: str
    text: str
    about: str = ""
    """Names what can be seen twice, and is told once."""


class TimeIsUp(NamedTuple):
    """The state's deadline has passed."""


class StopAsked(NamedTuple):
    pass


Seen = MainSeen | Asked | RolledBack | RetryAsked | MindDrifted | Observed | TimeIsUp | StopAsked
Event = Started | Ready | Launched | NotLaunched | Served | MustEnd | Died | Seen


class Launch(NamedTuple):
    """End what is left of the cell and prepare this; answered by Ready or NotLaunched. The next one replaces it."""

    branch: str
    level: Level
    reason: str
    version: Version = Version()
    """Of main; empty for a branch, which runs what the shared repository has."""
    made_for: str = ""
    fresh: bool = False
    """Main gets a new clone: something else has run meanwhile."""


class Start(NamedTuple):
    """What was prepared; answered by Launched or NotLaunched."""

    runner: Runner


class End(NamedTuple):
    runner: Runner
    firmly: bool = False
    """With SIGKILL; before that it is asked with SIGTERM."""


class RollBack(NamedTuple):
    """End what is left of the cell and roll main back; answered by RolledBack."""

    target: str


class Tell(NamedTuple):
    """Report to the PM in COMMS.md."""

    title: str
    text: str
    about: str = ""


class Leave(NamedTuple):
    """End the watcher; no runner is alive."""


Action = Launch | Start | End | RollBack | Tell | Leave
Decision = tuple[State, list[Action]]
