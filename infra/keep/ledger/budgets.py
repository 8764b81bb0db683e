"""The limits of a UTC day: what calls have taken, and whether another may be made. Pure.

A call is admitted only when everything spent, everything reserved and its own worst case together stay within each
limit that counts it; so no order of calls, ends and crashes passes one, as long as no call uses more than its worst
case. The label of a call is the runner's word, which nobody can check: it gives a call nothing but another limit."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from infra.keep.ledger.lines import Line, Opened, lines_of_day
from infra.keep.ledger.prices import NANO, nano_dollars
from infra.shared.conversation import EXPLORATION
from infra.shared.safe_files import opened_file


class Used(NamedTuple):
    """What calls of one kind have taken in a day."""

    spent: int = 0
    """Nano-dollars."""
    tokens: int = 0
    open: Mapping[str, int] = {}
    """By id, the worst cases in nano-dollars of the calls that were begun and not settled. A call whose end was never
    recorded stays."""
    calls: int = 0
    """Calls that were begun."""

    @property
    def reserved(self) -> int:
        return sum(self.open.values())

    def after(self, line: Line) -> Used:
        """With one more line; the end of a call that is not open changes nothing."""
        if isinstance(line, Opened):
            return self._replace(open={**self.open, line.id: line.nano_usd}, calls=self.calls + 1)
        if line.id not in self.open:
            return self
        rest = {other: worst for other, worst in self.open.items() if other != line.id}
        return Used(self.spent + line.nano_usd, self.tokens + sum(line.usage), rest, self.calls)


def by_label(lines: Iterable[Line]) -> dict[str, Used]:
    """What these lines of a day come to, oldest first."""
    found: dict[str, Used] = {}
    for line in lines:
        found[line.label] = found.get(line.label, Used()).after(line)
    return found


class Limit(NamedTuple):
    nano_usd: int
    """For a UTC day; below 0 nothing may be done at all."""
    counts: Callable[[str], bool]
    """Whether a call of this label counts."""
    error: str
    """The type of the failure (`conversation.ERROR_TYPES`)."""
    name: str
    """For people: what the PM has set."""


def limits_of(daily_nano_usd: int, exploration_usd: float | None) -> tuple[Limit, ...]:
    """The day, and exploration. `exploration_usd` None: nothing may be explored."""
    kind = "exploration_exhausted"
    whole = -1 if exploration_usd is None else nano_dollars(exploration_usd)
    words = "exploration.usd, which is not set," if exploration_usd is None else "exploration.usd"
    return (
        Limit(daily_nano_usd, lambda label: True, "budget_exhausted", "the daily budget, budget.daily_usd"),
        Limit(whole, EXPLORATION.__eq__, kind, words),
    )


class Passed(NamedTuple):
    """Why a call may not be made."""

    error: str
    words: str
    is_for_ever: bool
    """The call alone passes the limit: the next day is no better."""


def passed(limits: Sequence[Limit], used: Mapping[str, Used], label: str, worst: int, day: str) -> Passed | None:
    """The first limit that a call with this worst case, in nano-dollars, would pass; None when it may be made. `used`:
    by label."""
    for limit in limits:
        if not limit.counts(label):
            continue
        counted = [each for name, each in used.items() if limit.counts(name)]
        spent, reserved = sum(each.spent for each in counted), sum(each.reserved for each in counted)
        if spent + reserved + worst <= limit.nano_usd:
            continue
        is_alone = worst > limit.nano_usd
        alone = " This call alone could pass it: raise it or make the call smaller." if is_alone else ""
        ends = datetime.date.fromisoformat(day) + datetime.timedelta(days=1)
        words = (
            f"{limit.name} in minifram.yaml would be passed: spent {_dollars(spent)}, reserved for calls under way "
            f"{_dollars(reserved)}, this call could take {_dollars(worst)}, limit {_dollars(limit.nano_usd)}; "
            f"the day ends at {ends}T00:00:00Z.{alone}"
        )
        return Passed(limit.error, words, is_alone)
    return None


class Spent(NamedTuple):
    """Today's budget, for the PM to see."""

    day: str
    usd: float
    tokens: int
    reserved_usd: float
    """Worst cases of the calls under way."""
    daily_usd: float
    calls: int
    exhausted: bool
    labels: Mapping[str, float]
    """US dollars by what calls were for."""


def spent_today(ledger: str, daily_usd: float, now: float) -> Spent:
    """Of the UTC day of `now`; a day without a ledger cost nothing. Raises OSError."""
    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    try:
        with opened_file(ledger) as file:
            used = by_label(lines_of_day(file, day))
    except FileNotFoundError:
        used = {}
    spent, reserved = sum(each.spent for each in used.values()), sum(each.reserved for each in used.values())
    return Spent(
        day=day,
        usd=round(spent / NANO, 6),
        tokens=sum(each.tokens for each in used.values()),
        reserved_usd=round(reserved / NANO, 6),
        daily_usd=daily_usd,
        calls=sum(each.calls for each in used.values()),
        exhausted=spent + reserved >= nano_dollars(daily_usd),
        labels={label: round(each.spent / NANO, 6) for label, each in sorted(used.items())},
    )


def _dollars(nano: int) -> str:
    return f"${max(0, nano) / NANO:.4f}"
