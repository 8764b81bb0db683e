"""What is shown of a measurement: medians and spread, tables as text, and whether a goal was met. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """A sample in five numbers and its size."""

    least: float
    low: float
    """A quarter of the sample is below."""
    median: float
    high: float
    """A quarter of the sample is above."""
    most: float
    rounds: int


class Verdict(NamedTuple):
    """A figure of ours against what it is to be held against."""

    met: bool | None
    """None where there is no goal, only a distance to show."""
    text: str


class Table(NamedTuple):
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Cells as text, as many as there are in `head`."""
    notes: tuple[str, ...] = ()


class Figure(NamedTuple):
    """All that one benchmark has to say."""

    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...]


def spread(values: Sequence[float]) -> Spread:
    """Raises ValueError for an empty sample."""
    if not values:
        raise ValueError("there is nothing to take a median of; expected at least one round")
    ordered = sorted(values)
    middle = statistics.median(ordered)
    return Spread(ordered[0], quantile(ordered, 0.25), middle, quantile(ordered, 0.75), ordered[-1], len(ordered))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted sample lies, between two neighbours where it falls there."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def milliseconds(seconds: float) -> str:
    """Three digits that mean something: `0.123`, `12.3`, `1234`."""
    value = seconds * 1000
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}" if abs(value) >= 0.9995 else f"{value:.3f}"


def times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:.1f}x" if ratio < 99.95 else f"{ratio:.0f}x"


TIMES_HEAD = ("", "median ms", "middle half", "least", "most", "rounds", "ratio")


def times_row(what: str, values: Sequence[float], reference: Sequence[float] | None = None) -> tuple[str, ...]:
    """A row under `TIMES_HEAD`; the ratio is that of the medians."""
    seen = spread(values)
    ratio = times(seen.median / spread(reference).median) if reference else "1x"
    middle_half = f"{milliseconds(seen.low)}-{milliseconds(seen.high)}"
    return (
        what,
        milliseconds(seen.median),
        middle_half,
        milliseconds(seen.least),
        milliseconds(seen.most),
        str(seen.rounds),
        ratio,
    )


WORST_HEAD = ("", "least ms", "median ms", "p95 ms", "most ms", "rounds", "ratio")


def worst_row(what: str, values: Sequence[float], reference: Sequence[float]) -> tuple[str, ...]:
    """A row under `WORST_HEAD`, for what is to be short each time and not only as a rule; the ratio is the medians'."""
    seen = spread(values)
    shown = (seen.least, seen.median, quantile(sorted(values), 0.95), seen.most)
    ratio = times(seen.median / spread(reference).median)
    return what, *(milliseconds(value) for value in shown), str(seen.rounds), ratio


def none_lost(what: str, lost: int, of: int, how: str) -> Verdict:
    """Goal: nothing is lost, and there was something to lose."""
    met = lost == 0 and of > 0
    return Verdict(met, f"{what}: {lost} of {of} lost, {how}; goal 0: {'met' if met else 'MISSED'}")


def at_most(what: str, ours: Sequence[float], than: str, theirs: Sequence[float], limit: float) -> Verdict:
    """Goal: the median of ours is at most `limit` times theirs."""
    ours_median, theirs_median = spread(ours).median, spread(theirs).median
    ratio = ours_median / theirs_median
    shown = (
        f"{what}: {milliseconds(ours_median)} ms, {times(ratio)} of {than} ({milliseconds(theirs_median)} ms); "
        f"goal at most {limit:g}x"
    )
    if ratio <= limit:
        return Verdict(True, f"{shown}: met")
    over = milliseconds(ours_median - limit * theirs_median)
    return Verdict(False, f"{shown}: MISSED by {over} ms")


def ahead_of(what: str, ours: Sequence[float], than: str, theirs: Sequence[float]) -> Verdict:
    """Goal: the median of ours is below theirs."""
    ours_median, theirs_median = spread(ours).median, spread(theirs).median
    numbers = f"{what}: {milliseconds(ours_median)} ms, {than} {milliseconds(theirs_median)} ms"
    if ours_median < theirs_median:
        return Verdict(True, f"{numbers}, {times(theirs_median / ours_median)} as long; goal to be ahead: met")
    return Verdict(False, f"{numbers}; goal to be ahead: MISSED")


def distance(what: str, ours: Sequence[float], to: str, theirs: Sequence[float]) -> Verdict:
    """No goal: how far it is."""
    ours_median, theirs_median = spread(ours).median, spread(theirs).median
    ratio = times(ours_median / theirs_median)
    numbers = f"{milliseconds(ours_median)} ms, {ratio} of {to} ({milliseconds(theirs_median)} ms)"
    return Verdict(None, f"{what}: {numbers}; no goal, shown")


def render(table: Table) -> str:
    """The table as lines of text: the first column to the left, the others to the right."""
    lines = (table.head, *table.rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.head))]
    text = [table.title, "-" * min(len(table.title), 118)]
    for line in lines:
        first, *others = line
        cells = [first.ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text + [f"  {note}" for note in table.notes])


def summary(figures: Sequence[tuple[str, Figure]]) -> str:
    """All verdicts, one line each, with the missed goals counted."""
    verdicts = [(name, verdict) for name, figure in figures for verdict in figure.verdicts]
    missed = sum(verdict.met is False for _, verdict in verdicts)
    goals = sum(verdict.met is not None for _, verdict in verdicts)
    marks = {True: "ok  ", False: "MISS", None: "    "}
    lines = [f"{marks[verdict.met]} {name:9} {verdict.text}" for name, verdict in verdicts]
    counted = f"{missed} of {goals} goals missed" if missed else f"all {goals} goals met" if goals else "no goals here"
    return "\n".join(["Summary", "-------", *lines, counted])
