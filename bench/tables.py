"""Rounds of what is compared, and what is shown of them: medians and ratios, as text."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

HEAD = ("", "median ms", "least", "p95", "most", "rounds", "ratio")


class Table(NamedTuple):
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    """Cells as text, as many as there are in `head`."""
    notes: tuple[str, ...] = ()


def rounds(count: int, ways: Mapping[str, Callable[[int], float]], warm: int = 1) -> dict[str, list[float]]:
    """Seconds that each way took, by turns; the first `warm` rounds import and compile, and do not count."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(count + warm):
        for name in in_turn(ways, number):
            seconds = ways[name](number)
            took[name] += [seconds] if number >= warm else []
    return took


def timed(act: Callable[..., object], *given: object) -> Callable[[int], float]:
    """A way of which all counts."""

    def measure(number: int) -> float:
        began = time.perf_counter()
        act(*given)
        return time.perf_counter() - began

    return measure


def in_turn(names: Mapping[str, object], number: int) -> list[str]:
    """All of them, beginning with another one in each round."""
    by = number % len(names)
    return [*names][by:] + [*names][:by]


def times(title: str, took: Mapping[str, Sequence[float]], *notes: str) -> Table:
    """A row for each, by seconds; the ratio is that of its median to the first row's."""
    first = next(iter(took.values()))
    return Table(title, HEAD, [_row(name, of, first) for name, of in took.items()], notes)


def _row(name: str, of: Sequence[float], first: Sequence[float]) -> tuple[str, ...]:
    p95 = sorted(of)[int(0.95 * (len(of) - 1))]
    shown = (f"{1000 * seconds:.2f}" for seconds in (statistics.median(of), min(of), p95, max(of)))
    return name, *shown, str(len(of)), f"{ratio(of, first):.2f}x"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Of the medians."""
    return statistics.median(ours) / statistics.median(theirs)


def goal(what: str, reached: float, most: float) -> str:
    return f"{what}: {reached:.2f}x; goal at most {most:g}x: {'met' if reached <= most else 'MISSED'}"


def render(table: Table) -> str:
    """The first column to the left, the others to the right."""
    lines = [table.head, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [table.title, "-" * len(table.title)]
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        text.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([*text, *(f"  {note}" for note in table.notes)])
