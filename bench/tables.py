"""Rounds of what is compared, and what is shown of them: medians and ratios, as text."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

HEAD = ("", "median ms", "least", "most", "rounds", "ratio", "goal")
Way = Callable[[int], float]
"""Does it once, in the round of that number, and gives the seconds that count."""


class Table(NamedTuple):
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    """Cells as text, as many as there are in `head`."""
    notes: tuple[str, ...] = ()


def timed(act: Callable[..., object], *given: object, pause: float = 0.0) -> Way:
    """A way of which all counts but a pause before it."""

    def measure(_: int) -> float:
        time.sleep(pause)
        began = time.perf_counter()
        act(*given)
        return time.perf_counter() - began

    return measure


def rounds(count: int, ways: Mapping[str, Way], warm: int = 1) -> dict[str, list[float]]:
    """What each way took, by turns; the first `warm` rounds import and compile, and do not count."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(count + warm):
        by = number % len(ways)
        for name in [*ways][by:] + [*ways][:by]:
            seconds = ways[name](number)
            took[name] += [seconds] if number >= warm else []
    return took


def times(title: str, took: Mapping[str, Sequence[float]], goals: Mapping[str, float], *notes: str) -> Table:
    """A row for each, by seconds; the ratio is that of its median to the first row's, and a goal is the most of it."""
    first = statistics.median(next(iter(took.values())))
    rows = []
    for name, of in took.items():
        median = statistics.median(of)
        shown = (f"{1000 * seconds:.2f}" for seconds in (median, min(of), max(of)))
        rows.append((name, *shown, str(len(of)), *against(median / first, goals.get(name))))
    return Table(title, HEAD, rows, notes)


def against(ratio: float, most: float | None) -> tuple[str, str]:
    """A ratio, and how it stands to its goal."""
    return f"{ratio:.2f}x", f"at most {most:g}x: {'met' if ratio <= most else 'MISSED'}" if most else ""


def render(table: Table) -> str:
    """The first column to the left, the others to the right."""
    lines = [table.head, *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [table.title, "-" * len(table.title)]
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        text.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([*text, *(f"  {note}" for note in table.notes)])
