"""Money by label: what a day's calls were for, and whether another call of exploration fits into what the PM allows.

The label is the runner's word, which nobody can check; so it gives a call nothing but another limit beside the daily
one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra.keep.ledger.budget import Budget, Cost, day_end, opened, settled
from infra.keep.ledger.ledger import Line, Opened, opening_cost, settled_cost
from infra.keep.ledger.prices import NANO, nano_dollars
from infra.shared.labels import EXPLORATION, SHARES

Labels = Mapping[str, Budget]
"""Of one day; the limit in them means nothing."""


def is_exploration(label: str) -> bool:
    return label.partition("/")[0] == EXPLORATION


def labels_of(lines: Iterable[Line], day: str) -> dict[str, Budget]:
    """By label, what these lines of a day come to, oldest first."""
    found: dict[str, Budget] = {}
    for line in lines:
        before = found.get(line.label) or Budget(day, 0)
        if isinstance(line, Opened):
            found[line.label] = opened(before, line.id, opening_cost(line))
        else:
            found[line.label] = settled(before, line.id, settled_cost(line), line.error is not None)
    return found


def problem_with_exploration(labels: Labels, label: str, worst: Cost, usd: float | None) -> str | None:
    """Why a call with this worst case may not be made; None when it may, or explores nothing. `usd`: for a UTC
    day of exploration; None allows none."""
    if not is_exploration(label):
        return None
    if usd is None:
        return "nothing may be explored: exploration.usd is not set in minifram.yaml"
    limits = [(nano_dollars(usd), [each for name, each in labels.items() if is_exploration(name)], "exploration.usd")]
    if share := SHARES.get(label):
        of_label = [each for name, each in labels.items() if name == label]
        limits.append((nano_dollars(usd * share), of_label, f"{share:.0%} of exploration.usd, for {label}"))
    for limit, counted, name in limits:
        used = Cost()
        for each in counted:
            used = used.plus(each.spent).plus(each.reserved)
        if not used.plus(worst).within(limit):
            day = next((each.day for each in labels.values()), "")
            ends = f"; the day ends at {day_end(day)}" if day else ""
            return (
                f"what may be explored in a day would be passed: used {_shown(used.nano_usd)}, this call could take "
                f"{_shown(worst.nano_usd)}, limit {_shown(limit)} ({name} in minifram.yaml){ends}"
            )
    return None


def _shown(nano_usd: int) -> str:
    return f"${nano_usd / NANO:.4f}"
