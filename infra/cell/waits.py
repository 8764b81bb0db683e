"""What waits, and for what: one table in the runner's state, by the id of the work. Pure; the time is an argument.

What the PM pushes to main ends every wait: it may hold the file, the answer or the change that was waited for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from infra.cell.run_states import StopReason
from infra.shared.clock import timestamp
from infra.shared.conversation import EXPLORATION

MOST_TRIES: Final = 3
COUNTED: Final = frozenset(
    (
        *(StopReason.MAX_STEPS, StopReason.MAX_WALL_TIME, StopReason.MAX_TOKENS, StopReason.MAX_FAILURES),
        *(StopReason.REFUSAL, StopReason.INVALID_REPLIES, StopReason.NO_OP_LOOP, StopReason.POLICY_DENIED),
    )
)
"""Reasons after which the same again may come to the same again, for the same money."""
AGAIN: Final[Mapping[StopReason, tuple[int | None, ...]]] = {
    **dict.fromkeys(COUNTED, (1, 6, None)),
    StopReason.AWAITING_APPROVAL: (None,),
    StopReason.NOT_RECORDED: (1,),
    StopReason.COMPLETED: (1,),  # what is done and stays open all the same is not begun again at once, without end
}
"""Ticks until the next try, by the number of tries; None: until the PM's word."""
MODEL: Final = "the model"
"""In the table; while it waits, nothing is begun."""
DAY_SECONDS: Final = 86_400.0
WORD: Final = (
    "The agent does not begin again by itself: it waits for your word, a new or changed directive ('minifram tell') or "
    "any other push of yours to main."
)


class Wait(msgspec.Struct, frozen=True):
    why: str = ""
    """A `StopReason`, `review of BRANCH`, or the type of the model's failure."""
    tries: int = 0
    """Since the PM's last word."""
    until: float | None = 0.0
    """Wall time; None: until the PM's word."""
    digest: str = ""
    """Of the words of the work: with others it is other work."""
    run: str = ""
    """Which asked for an approval, and goes on with the answer."""
    asks: tuple[str, ...] = ()
    """Ids of its questions to the PM."""
    branch: str = ""
    """The version that it handed over to last; the PM's review may be awaited for it."""

    @property
    def is_review(self) -> bool:
        return self.why.startswith("review of ")

    @property
    def is_counted(self) -> bool:
        return self.why in _COUNTED


_COUNTED = frozenset(reason.value for reason in COUNTED)
Table = Mapping[str, Wait]


def is_due(wait: Wait, now: float, tick: float) -> bool:
    """A clock that was set back makes nothing wait longer than anything may."""
    return wait.until is not None and not 0 < wait.until - now <= max(DAY_SECONDS, 6 * tick)


def after(before: Wait, reason: StopReason, now: float, tick: float, has_spoken: bool) -> Wait:
    """How the work of a run waits that ended so; `has_spoken`: the PM did, while it ran."""
    if reason not in AGAIN:  # it goes on: in another version, or when there is a model
        return before
    if has_spoken:
        return Wait(reason.value, 0, 0.0, before.digest)
    tries = before.tries + 1
    ticks = AGAIN[reason][min(tries, len(AGAIN[reason])) - 1]
    return Wait(reason.value, tries, None if ticks is None else now + ticks * tick, before.digest)


def released(table: Table, in_review: Collection[str]) -> dict[str, Wait]:
    """The PM has spoken: nothing waits any more but for a review of these branches, and what may be explored for the
    next day. What a run can go on with is kept in mind."""
    kept = dict[str, Wait]()
    for key, wait in table.items():
        if key.partition("/")[0] == EXPLORATION or (wait.is_review and wait.branch in in_review):
            kept[key] = wait
        elif wait.run or wait.branch:
            kept[key] = msgspec.structs.replace(wait, tries=0, until=0.0)
    return kept


def review_of(wait: Wait) -> Wait:
    """The work is done, but for the PM's review of its branch."""
    return Wait(f"review of {wait.branch}", 0, None, wait.digest, branch=wait.branch)


def lasting(table: Table) -> dict[str, Wait]:
    """At a start, or when the doors are back: what failed for want of them is tried again."""
    return {key: wait for key, wait in table.items() if wait.is_counted or wait.run or wait.branch}


def next_at(table: Table, now: float) -> float | None:
    """When the next wait is over."""
    return min((wait.until for wait in table.values() if wait.until and wait.until > now), default=None)


def words_on(wait: Wait) -> str:
    """What follows, for the report of a run that was stopped."""
    if wait.why == StopReason.AWAITING_APPROVAL.value:
        return "It stays open, and goes on when you have answered, or pushed to main."
    if wait.tries == 0:
        return "You have pushed to main meanwhile, so it begins again at once."
    if wait.why == StopReason.NOT_RECORDED.value:
        return "It stays open, and is tried again when you push to main, at a restart, and at a later tick."
    nth = f"This was try {wait.tries} of {MOST_TRIES}"
    if wait.until is None:
        return f"{nth}. {WORD}"
    return f"{nth}. It stays open; the next one begins when you push to main, or at {timestamp(wait.until)}."


def shown(waiting: Iterable[tuple[str, Wait]]) -> str:
    """For the status: open work that waits, in a line."""
    return "; ".join(f"{subject}: {_until(wait)}" for subject, wait in waiting)


def _until(wait: Wait) -> str:
    if wait.is_review:
        return f"waits for your {wait.why}"
    if wait.until is None:
        return f"stopped ({wait.why}); it waits for your word"
    return f"stopped ({wait.why}); the next try is at {timestamp(wait.until)}"
