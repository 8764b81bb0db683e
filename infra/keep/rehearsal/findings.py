"""What a rehearsal can find, in words: the stages of the small life, and the two ways not to get through it.

`Unfit` speaks of the candidate, `Outage` of what is around it. Which of the two a failure is, is settled before it is
said: no candidate is called unfit while a door is shut or the disk is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from infra.keep.rehearsal.verdict import WALL_FACTOR


class Stage(Enum):
    """In the order of a life."""

    CLONE = "clone"
    """The commit is whole, and a clone of it can be made."""
    BOOT = "boot"
    """BOOTSTRAPPING and SUCCESS of this very boot."""
    DIRECTIVE = "directive"
    """The model is asked about the open directive."""
    WRITE = "write"
    PUSH = "push"
    REPORT = "report"
    """The report and the tick are on main."""
    BOOTSTRAP = "bootstrap"
    """Another branch is pushed, and the signal that asks for it is there."""
    LEAVE = "leave"
    """Having signalled, it ends by itself."""
    RESTART = "restart"
    """It comes up again where it has lived before."""
    STOP = "stop"
    """It obeys SIGTERM."""
    BOUNDS = "bounds"
    """It kept within its disk and its log."""


class Unfit(Exception):
    """The candidate did not get through `stage`."""

    def __init__(self, stage: Stage, why: str) -> None:
        super().__init__(why)
        self.stage = stage


class Outage(Exception):
    """No verdict is possible; says what was expected, what was found and what to do."""


@contextmanager
def as_outage(what: str) -> Iterator[None]:
    """What the machine refuses meanwhile says nothing about the candidate."""
    try:
        yield
    except OSError as error:
        raise Outage(f"{what}: {error}") from error


class CandidateTime:
    """The time that a candidate has: that in which the machine could have done its work.

    A stretch in which we were not run ourselves counts for hardly anything (a machine that was suspended, or stood
    still), and one in which programs waited for a processor or a disk for a part: good code must not look slow on a
    busy machine. A part it is, so that a candidate that keeps the machine busy itself comes to an end as well."""

    LONGEST_TICK_SECONDS = 0.1
    SLOWEST = 1 / 3
    """Of the time goes by on the busiest machine."""

    def __init__(self, seconds: float, now: float, waited: float) -> None:
        """`now` is the monotonic time; `waited`, of a clock that grows while programs have to wait."""
        self._left = seconds
        self._last, self._waited = now, waited
        self._wall_end = now + seconds * WALL_FACTOR

    def left(self, now: float, waited: float) -> float:
        """What is left by then. Raises Outage when the machine stood still for too long."""
        passed = min(max(0.0, now - self._last), self.LONGEST_TICK_SECONDS)
        self._left -= max(passed * self.SLOWEST, passed - max(0.0, waited - self._waited))
        self._last, self._waited = now, waited
        if self._left > 0 and now > self._wall_end:
            raise Outage("the machine is too slow for a rehearsal just now: it stood still most of the time; try again")
        return self._left
