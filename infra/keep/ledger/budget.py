"""The day's budget as a value, and the decisions on it: whether a call may be made, and what it took in the end.

A call is admitted only when everything spent, everything reserved and its own worst case together stay within
the limit; so no order of calls, ends and crashes passes them, as long as no call uses more than its worst case.
Days are UTC days. Which calls there were is the ledger's to know."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import NamedTuple

from infra.keep.ledger.prices import NANO


class Cost(NamedTuple):
    nano_usd: int = 0
    tokens: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(self.nano_usd + other.nano_usd, self.tokens + other.tokens)

    def within(self, nano_usd: int) -> bool:
        return self.nano_usd <= nano_usd


class Budget(NamedTuple):
    day: str
    """`2026-01-31`"""
    limit: int
    """Nano-dollars."""
    spent: Cost = Cost()
    open: Mapping[str, Cost] = {}
    """Worst cases of the calls that were begun and not settled. A call whose end was never recorded stays."""
    calls: int = 0
    """Calls that were begun."""
    failed: int = 0
    """Of these, the ones that gave no completion."""

    @property
    def reserved(self) -> Cost:
        total = Cost()
        for worst in self.open.values():
            total = total.plus(worst)
        return total

    @property
    def share(self) -> float:
        """How much of it is spent, from 0 to 1."""
        return self.spent.nano_usd / max(1, self.limit)


def problem_with_call(budget: Budget, worst: Cost) -> str | None:
    """Why a call with this worst case may not be made within the day; None when it may."""
    if budget.spent.plus(budget.reserved).plus(worst).within(budget.limit):
        return None
    alone = "" if worst.within(budget.limit) else " This call alone could pass it: raise it or make the call smaller."
    return (
        f"the daily budget would be passed: spent {_shown(budget.spent.nano_usd)}, reserved for calls under way "
        f"{_shown(budget.reserved.nano_usd)}, this call could take {_shown(worst.nano_usd)}, limit "
        f"{_shown(budget.limit)} (budget.daily_usd in minifram.yaml); the day ends at {day_end(budget.day)}.{alone}"
    )


def opened(budget: Budget, call: str, worst: Cost) -> Budget:
    """The budget with a call under way."""
    return budget._replace(open={**budget.open, call: worst}, calls=budget.calls + 1)


def settled(budget: Budget, call: str, actual: Cost, failed: bool) -> Budget:
    """The budget after a call's end. A call of another day changes nothing."""
    if call not in budget.open:
        return budget
    rest = {other: worst for other, worst in budget.open.items() if other != call}
    return budget._replace(open=rest, spent=budget.spent.plus(actual), failed=budget.failed + failed)


def day_end(day: str) -> str:
    """When a UTC day ends: `2026-02-01T00:00:00Z` for `2026-01-31`."""
    following = datetime.date.fromisoformat(day) + datetime.timedelta(days=1)
    return f"{following.isoformat()}T00:00:00Z"


def _shown(nano_usd: int) -> str:
    return f"${nano_usd / NANO:.4f}"
