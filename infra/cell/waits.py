"""What waits, and for what: one table in the runner's state, by the id of the work. Pure; the time is an argument.

A call that waits for an approval waits for its answer alone, and a branch for its review. All else ends with whatever
the PM pushes to main: it may hold the file or the change that was waited for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from infra.cell.run_states import StopReason
from infra.shared.clock import timestamp

AGAIN: Final = (1, 6, None)
"""At which tick of the clock the next try begins, by the number of tries; None: behind the PM's word."""
MOST_TRIES: Final = len(AGAIN)
HOP_FAILED: Final = "a hop that failed"
COUNTED: Final = frozenset(
    (
        *(StopReason.MAX_STEPS, StopReason.MAX_WALL_TIME, StopReason.MAX_TOKENS, StopReason.MAX_FAILURES),
        *(StopReason.REFUSAL, StopReason.INVALID_REPLIES, StopReason.NO_OP_LOOP, StopReason.POLICY_DENIED),
        StopReason.COMPLETED,  # it stays open all the same: its report or its answer was not taken
    )
)
"""Reasons after which the same again may come to the same again, for the same money."""
MODEL: Final = "the model"
"""In the table; while it waits, nothing is begun: a run that was cut off is gone on with before another begins."""


class Wait(msgspec.Struct, frozen=True):
    why: str = ""
    """A `StopReason`, `review of BRANCH`, or HOP_FAILED."""
    tries: int = 0
    """Since the PM's last word."""
    until: float | None = 0.0
    """Wall time; None: until the PM's word."""
    digest: str = ""
    """Of the words of the work: with others it is other work."""
    run: str = ""
    """Which goes on when the work is begun."""
    asks: tuple[str, ...] = ()
    """Questions to the PM, of whose answers it waits for the first."""
    branch: str = ""
    """The version that it handed over to last; the PM's review may be awaited for it."""

    @property
    def is_review(self) -> bool:
        return self.why.startswith("review of ")

    @property
    def is_counted(self) -> bool:
        return self.why in {reason.value for reason in COUNTED}


Table = Mapping[str, Wait]


def is_due(wait: Wait, now: float, tick: float, answered: Collection[str] = ()) -> bool:
    """`answered`: the questions that have an answer. A clock that was set back makes nothing wait longer than anything
    may."""
    if wait.until is None:
        return not {*answered}.isdisjoint(wait.asks)
    return not 0 < wait.until - now <= 6 * tick


def after(before: Wait, reason: StopReason, now: float, tick: float) -> Wait:
    """How the work of a run waits that ended so."""
    if reason in (StopReason.HANDED_OVER, StopReason.INTERRUPTED):  # it goes on in another process
        return before
    tries = before.tries + 1
    ticks = AGAIN[min(tries, MOST_TRIES) - 1] if reason in COUNTED else 1
    until = None if ticks is None else (now // tick + ticks) * tick
    return Wait(reason.value, tries, until, before.digest)


def after_hop(before: Wait, has_failed: bool, now: float, tick: float) -> Wait:
    """How work waits that has handed over, when main runs again. One that failed is a try; behind the first two, the
    work goes on at once, to mend what failed."""
    if not has_failed:
        return replace(before, why="")
    tries = before.tries + 1
    ticks = (0, 0, *AGAIN)[min(tries, MOST_TRIES + 2) - 1]
    return replace(before, why=HOP_FAILED, tries=tries, until=None if ticks is None else (now // tick + ticks) * tick)


def review_of(wait: Wait) -> Wait:
    """The work is done, but for the PM's review of its branch."""
    return Wait(f"review of {wait.branch}", 0, None, wait.digest, branch=wait.branch)


def released(table: Table, in_review: Collection[str]) -> dict[str, Wait]:
    """The PM has spoken: nothing waits any more but for an answer, or for a review of these branches. What a run can go
    on with is kept in mind."""
    return {
        key: wait if wait.asks or (wait.is_review and wait.branch in in_review) else replace(wait, tries=0, until=0.0)
        for key, wait in table.items()
        if wait.run or wait.branch
    }


def words_on(wait: Wait) -> str:
    """What follows, for the report of a run that was stopped."""
    nth = f"This was try {wait.tries} of {MOST_TRIES}. " if wait.is_counted else ""
    if wait.asks:
        return "It stays open, and goes on with your answer ('minifram approve')."
    if wait.until is None:
        word = "a new or changed directive ('minifram tell'), or any other push of yours to main"
        return f"{nth}It stays open, and the agent does not begin again by itself: it waits for your word, {word}."
    return f"{nth}It stays open, and is tried again when you push to main, or at {timestamp(wait.until)}."


def shown(waiting: Iterable[tuple[str, Wait]]) -> str:
    """For the status: open work that waits, in a line."""
    return "; ".join(
        f"{subject}: {wait.why}, {'waits for your word' if wait.until is None else f'again at {timestamp(wait.until)}'}"
        for subject, wait in waiting
    )
