"""The day's budget as a value, and the decisions on it: whether a call may be made, and what it took in the end.

A call is admitted only when everything spent, everything reserved and its own worst case together stay within
both limits; so no order of calls, ends and crashes passes them, as long as no call uses more than its worst case.
Days are UTC days. Which calls there were is the ledger's to know."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import NamedTuple

from infra.models.prices import NANO


class Cost(NamedTuple):
    nano_usd: int = 0
    tokens: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(self.nano_usd + other.nano_usd, self.tokens + other.tokens)

    def within(self, limit: Cost) -> bool:
        return self.nano_usd <= limit.nano_usd and self.tokens <= limit.tokens


class Budget(NamedTuple):
    """One day."""

    day: str
    """`2026-01-31`"""
    limit: Cost
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


def problem_with_call(budget: Budget, worst: Cost) -> str | None:
    """Why a call with this worst case may not be made; None when it may."""
    taken = budget.spent.plus(budget.reserved)
    if taken.plus(worst).within(budget.limit):
        return None
    alone = (
        ""
        if worst.within(budget.limit)
        else " This call alone could pass the limit: raise it or make the call smaller."
    )
    return (
        f"the daily budget would be passed: spent {_shown(budget.spent)}, reserved for calls under way "
        f"{_shown(budget.reserved)}, this call could take {_shown(worst)}, limit {_shown(budget.limit)} "
        f"(budget.daily_usd and budget.daily_tokens in minifram.yaml); the day ends at {day_end(budget.day)}.{alone}"
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


def _shown(cost: Cost) -> str:
    return f"${cost.nano_usd / NANO:.4f} and {cost.tokens} tokens"
