"""The mind's standing duties: which are due, which were done. Periods are UTC days and ISO weeks; the time is an
argument, and so is what was done, so that no daemon has to be awake when a period ends."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from infra.shared.clock import timestamp

STATE: Final = "logs/health/duties.json"
"""Below the mind's root; committed, so that a clone that is made again does nothing twice."""
MOST_TRIES: Final = 3
"""Of one duty for one period."""
MOST_KEPT: Final = 60
"""Periods that are remembered for each duty, the last recorded ones."""
MOST_BYTES: Final = 1 << 16
_WHY_CHARS = 300
_DAY, _WEEK = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d{4}-W\d\d")


class Period(Enum):
    DAY = "day"
    WEEK = "week"

    def of(self, day: datetime.date) -> str:
        """`2026-01-31` or `2026-W05`; names of one kind sort by time."""
        if self is Period.DAY:
            return day.isoformat()
        year, week, _ = day.isocalendar()
        return f"{year:04}-W{week:02}"

    @property
    def days(self) -> int:
        return 1 if self is Period.DAY else 7

    def is_name(self, text: str) -> bool:
        return bool((_DAY if self is Period.DAY else _WEEK).fullmatch(text))


class Duty(NamedTuple):
    name: str
    period: Period
    words: str
    """What it is, for people."""
    catch_up: int = 1
    """After a down time, so many of the periods that were missed are done, the last ones."""
    at_start: bool = False
    """Due when its period begins; else when it has ended, and then it is about that one."""


DAILY_SUMMARY: Final = "daily_summary"
WEEKLY_REVIEW: Final = "weekly_review"
CONTEXT_PROFILE: Final = "context_profile"
DEPRECATION_SCAN: Final = "deprecation_scan"
SKILL_REVIEW: Final = "skill_review"
HEALTH_CHECK: Final = "health_check"
EXPLORATION_RESET: Final = "exploration_reset"
DUTIES: Final = (
    Duty(EXPLORATION_RESET, Period.DAY, "a new day's exploration budget", at_start=True),
    Duty(HEALTH_CHECK, Period.DAY, "look at its own sandbox", at_start=True),
    Duty(DAILY_SUMMARY, Period.DAY, "daily summary", catch_up=7),
    Duty(SKILL_REVIEW, Period.DAY, "review of the skills: trials, the gate", at_start=True),
    Duty(CONTEXT_PROFILE, Period.WEEK, "context profile"),
    Duty(DEPRECATION_SCAN, Period.WEEK, "deprecation scan of the skills"),
    Duty(WEEKLY_REVIEW, Period.WEEK, "weekly review: summary, coherence"),
)
"""In the order in which they are done."""


class DueDuty(NamedTuple):
    duty: Duty
    period: str
    """`2026-01-31` or `2026-W05`: what it is about."""


def due(
    done: Mapping[str, Collection[str]], now: float, duties: Sequence[Duty] = DUTIES, born: float = -math.inf
) -> tuple[DueDuty, ...]:
    """What is to be done at `now` (seconds since the epoch), the oldest period of each duty first. `done`: the periods
    of each duty that need nothing more.

    A period is due once it is later than every done one that is not in the future: a clock that was set back brings
    nothing again, and a record from the future holds up nothing. The first time of all, one period is due. Nothing is
    due for a period that ended before the agent was `born`, unless a clock says that this is yet to come."""
    today, first = _day_of(now), _day_of(born if born <= now else -math.inf)
    every = (DueDuty(duty, period) for duty in duties for period in _due_periods(duty, done, today))
    return tuple(each for each in every if each.period >= each.duty.period.of(first))


def _due_periods(duty: Duty, done: Mapping[str, Collection[str]], today: datetime.date) -> list[str]:
    behind = 0 if duty.at_start else 1
    window = [_before(today, duty.period, behind + back) for back in reversed(range(duty.catch_up))]
    past = [period for period in done.get(duty.name, ()) if duty.period.is_name(period) and period <= window[-1]]
    return [period for period in window if period > max(past)] if past else window[-1:]


def next_due(duty: Duty, now: float) -> str:
    """When the period that runs at `now` ends, as `2026-02-01T00:00Z`."""
    today = _day_of(now)
    first = today if duty.period is Period.DAY else today - datetime.timedelta(days=today.weekday())
    try:
        return f"{first + datetime.timedelta(days=duty.period.days)}T00:00Z"
    except OverflowError:
        return "never"


def _day_of(now: float) -> datetime.date:
    """The clock may say anything."""
    try:
        return datetime.datetime.fromtimestamp(now, datetime.UTC).date()
    except (OverflowError, ValueError, OSError):
        return datetime.date.max if now > 0 else datetime.date.min


def _before(day: datetime.date, period: Period, back: int) -> str:
    try:
        return period.of(day - datetime.timedelta(days=back * period.days))
    except OverflowError:
        return period.of(datetime.date.min)


class DutyRecord(msgspec.Struct, frozen=True):
    """What `duties.json` holds of one duty."""

    done: tuple[str, ...] = ()
    """Periods that need nothing more, in the order in which they came to that."""
    at: str = ""
    """When it was done last."""
    words: str = ""
    """What came of it."""
    tries: dict[str, int] = {}
    """Of the periods that are not done, how often each was begun."""
    failed_at: str = ""
    why: str = ""
    """Of the last failure; empty once it is done again."""
    given_up: tuple[str, ...] = ()
    """Periods that failed MOST_TRIES times."""


class DutyState(msgspec.Struct, frozen=True):
    version: int = 1
    duties: dict[str, DutyRecord] = {}

    @property
    def done(self) -> dict[str, tuple[str, ...]]:
        return {name: (*record.done, *record.given_up) for name, record in self.duties.items()}

    def record(self, name: str) -> DutyRecord:
        return self.duties.get(name, DutyRecord())

    def with_done(self, due: DueDuty, now: float, words: str) -> DutyState:
        record = self.record(due.duty.name)
        return self._with(
            due.duty.name,
            msgspec.structs.replace(
                record,
                done=_remembered(record.done, due.period),
                at=timestamp(now),
                words=words[:_WHY_CHARS],
                tries={period: n for period, n in record.tries.items() if period != due.period},
                given_up=tuple(period for period in record.given_up if period != due.period),
                why="",
            ),
        )

    def with_try(self, due: DueDuty, now: float) -> DutyState:
        """It is about to begin; the last of MOST_TRIES gives the period up, if it is not done by it. What ends the
        process is so a failed try as well."""
        record = self.record(due.duty.name)
        tries = record.tries.get(due.period, 0) + 1
        others = {period: n for period, n in record.tries.items() if period != due.period}
        over = tries >= MOST_TRIES
        begun = msgspec.structs.replace(
            record,
            tries=others if over else {**others, due.period: tries},
            given_up=_remembered(record.given_up, due.period) if over else record.given_up,
        )
        return self._with(due.duty.name, begun).with_failure(due, now, "it began, and its end was not noted")

    def with_failure(self, due: DueDuty, now: float, why: str) -> DutyState:
        """Why the try failed."""
        record = self.record(due.duty.name)
        why = " ".join(why.split())[:_WHY_CHARS]
        return self._with(due.duty.name, msgspec.structs.replace(record, failed_at=timestamp(now), why=why))

    def has_given_up(self, due: DueDuty) -> bool:
        return due.period in self.record(due.duty.name).given_up

    def _with(self, name: str, record: DutyRecord) -> DutyState:
        return msgspec.structs.replace(self, duties={**self.duties, name: record})


def _remembered(periods: tuple[str, ...], period: str) -> tuple[str, ...]:
    return (*(each for each in periods if each != period), period)[-MOST_KEPT:]


class UnreadableState(ValueError):
    """`duties.json` holds no state of duties; carries what to do."""

    def __init__(self, message: str, is_later: bool = False) -> None:
        super().__init__(message)
        self.is_later = is_later
        """A later minifram wrote it."""


def state_of(content: bytes) -> DutyState:
    """Raises UnreadableState."""
    try:
        state = msgspec.json.decode(content, type=DutyState)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableState(
            f"{STATE}: expected what minifram wrote there, as JSON, but {error}; it is written anew, and what the "
            "summaries show is not done again"
        ) from error
    if state.version > 1:
        raise UnreadableState(
            f"{STATE}: a later minifram wrote it (version {state.version}); nothing is done by it", True
        )
    return state


def to_json(state: DutyState) -> bytes:
    return msgspec.json.format(msgspec.json.encode(state, order="sorted"), indent=1) + b"\n"


def shown_by_files(daily: Collection[str], weekly: Collection[str]) -> dict[str, tuple[str, ...]]:
    """What was done according to the summaries that exist, by their names: for when the state is lost."""
    days = tuple(sorted(name[:-3] for name in daily if name.endswith(".md") and Period.DAY.is_name(name[:-3])))
    weeks = tuple(sorted(name[:-3] for name in weekly if name.endswith(".md") and Period.WEEK.is_name(name[:-3])))
    found = {DAILY_SUMMARY: days, WEEKLY_REVIEW: weeks, CONTEXT_PROFILE: weeks, DEPRECATION_SCAN: weeks}
    return {name: periods[-MOST_KEPT:] for name, periods in found.items() if periods}
