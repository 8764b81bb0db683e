"""Money by label: what a day's calls were for, and whether another call of exploration fits into what the PM allows.

The label is the runner's word, which nobody can check; so it gives a call nothing but another limit beside the daily
one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from infra.keep.ledger.budget import Budget, Cost, day_end, opened, settled
from infra.keep.ledger.ledger import Line, Opened, opening_cost, settled_cost
from infra.keep.ledger.prices import NANO, nano_dollars
from infra.shared.labels import EXPLORATION
from infra.shared.mind_settings import ExplorationSettings

Labels = Mapping[str, Budget]
"""Of one day; the limit in them means nothing."""


class Allowed(NamedTuple):
    """What may be used up in a UTC day."""

    cost: Cost
    calls: int
    name: str
    """Of the settings."""


def is_exploration(label: str) -> bool:
    return label.partition("/")[0] == EXPLORATION


def labels_of(lines: Iterable[Line], day: str) -> dict[str, Budget]:
    """By label, what these lines of a day come to, oldest first."""
    found: dict[str, Budget] = {}
    for line in lines:
        before = found.get(line.label) or Budget(day, Cost())
        if isinstance(line, Opened):
            found[line.label] = opened(before, line.id, opening_cost(line))
        else:
            found[line.label] = settled(before, line.id, settled_cost(line), line.error is not None)
    return found


def allowed(settings: ExplorationSettings, label: str) -> list[Allowed]:
    """The limits on calls of this label: of all exploration, and of its part. None of them, when it explores nothing,
    or nothing may be explored."""
    if settings.usd is None:
        return []
    name, share = settings.share(label)
    whole = Cost(nano_dollars(settings.usd), settings.tokens)
    found = [Allowed(whole, settings.calls, "exploration.usd, exploration.tokens and exploration.calls")]
    if name:
        part = Cost(int(whole.nano_usd * share), int(whole.tokens * share))
        found.append(Allowed(part, int(settings.calls * share), name))
    return found


def problem_with_exploration(labels: Labels, label: str, worst: Cost, settings: ExplorationSettings) -> str | None:
    """Why a call with this worst case may not be made; None when it may, or explores nothing."""
    if not is_exploration(label):
        return None
    limits = allowed(settings, label)
    if not limits:
        return "nothing may be explored: exploration.usd is not set in minifram.yaml"
    for number, limit in enumerate(limits):
        counted = [each for name, each in labels.items() if (is_exploration(name) if number == 0 else name == label)]
        used, calls = Cost(), 0
        for each in counted:
            used, calls = used.plus(each.spent).plus(each.reserved), calls + each.calls
        if not used.plus(worst).within(limit.cost) or calls + 1 > limit.calls:
            day = next((each.day for each in labels.values()), "")
            ends = f"; the day ends at {day_end(day)}" if day else ""
            return (
                f"what may be explored in a day would be passed: used {_shown(used)} in {calls} calls, this call could "
                f"take {_shown(worst)}, limit {_shown(limit.cost)} in {limit.calls} calls ({limit.name} in "
                f"minifram.yaml){ends}"
            )
    return None


def _shown(cost: Cost) -> str:
    return f"${cost.nano_usd / NANO:.4f} and {cost.tokens} tokens"
