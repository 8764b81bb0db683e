"""What a day cost, as the model door counts it: for the PM to see."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from infra.keep.ledger.labels import labels_of
from infra.keep.ledger.ledger import lines_of_day, replay
from infra.keep.ledger.prices import NANO, nano_dollars
from infra.shared.safe_files import opened_file


class Spent(NamedTuple):
    """Today's budget; a UTC day."""

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
    day, limit = time.strftime("%Y-%m-%d", time.gmtime(now)), nano_dollars(daily_usd)
    try:
        with opened_file(ledger) as file:
            lines = lines_of_day(file.fileno(), day)
    except FileNotFoundError:
        lines = []
    budget = replay(lines, day, limit)
    return Spent(
        day=day,
        usd=_dollars(budget.spent.nano_usd),
        tokens=budget.spent.tokens,
        reserved_usd=_dollars(budget.reserved.nano_usd),
        daily_usd=daily_usd,
        calls=budget.calls,
        exhausted=budget.spent.plus(budget.reserved).nano_usd >= limit,
        labels={label: _dollars(each.spent.nano_usd) for label, each in sorted(labels_of(lines, day).items())},
    )


def _dollars(nano_usd: int) -> float:
    return round(nano_usd / NANO, 6)
