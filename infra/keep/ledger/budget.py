"""A budget as a value, of a day or of one unit of work, and the decisions on it: whether a call may be made, and what
it took in the end.

A call is admitted only when everything spent, everything reserved and its own worst case together stay within
both limits; so no order of calls, ends and crashes passes them, as long as no call uses more than its worst case.
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

    def within(self, limit: Cost) -> bool:
        return self.nano_usd <= limit.nano_usd and self.tokens <= limit.tokens


class Budget(NamedTuple):
    """One day, or one unit as far as it began on that day or the day before."""

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

    @property
    def share(self) -> float:
        """How much of it is spent, from 0 to 1: of money or of tokens, whichever is nearer to its end."""
        return max(self.spent.nano_usd / max(1, self.limit.nano_usd), self.spent.tokens / max(1, self.limit.tokens))


def problem_with_call(budget: Budget, worst: Cost) -> str | None:
    """Why a call with this worst case may not be made within the day; None when it may."""
    problem = _problem("the daily budget", budget, worst, "budget.daily_usd and budget.daily_tokens")
    return f"{problem}; the day ends at {day_end(budget.day)}.{_alone(budget, worst)}" if problem else None


def problem_with_unit(budget: Budget, worst: Cost) -> str | None:
    """The same of the unit of work that the call belongs to."""
    problem = _problem("what one unit of work may cost", budget, worst, "budget.unit_usd and budget.unit_tokens")
    return f"{problem}.{_alone(budget, worst)}" if problem else None


def _problem(what: str, budget: Budget, worst: Cost, settings: str) -> str | None:
    if budget.spent.plus(budget.reserved).plus(worst).within(budget.limit):
        return None
    return (
        f"{what} would be passed: spent {_shown(budget.spent)}, reserved for calls under way "
        f"{_shown(budget.reserved)}, this call could take {_shown(worst)}, limit {_shown(budget.limit)} "
        f"({settings} in minifram.yaml)"
    )


def _alone(budget: Budget, worst: Cost) -> str:
    if worst.within(budget.limit):
        return ""
    return " This call alone could pass the limit: raise it or make the call smaller."


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
