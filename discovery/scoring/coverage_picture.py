"""The picture of a comparison: the share of the world's files that were read, over steps and over money. SVG, by
hand; pure.

A thin line is a run, a thick one its model's median. Colours are told apart by most eyes, and the dashes by all."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT, PANEL_WIDTH, PANEL_HEIGHT = 960, 430, 380, 270
LEFT, TOP, GAP = 60, 50, 90
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
MOST_POINTS = 2000
"""Of a line: no screen shows more."""
TICKS = 4
ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


class Curve(NamedTuple):
    """One run: how many of `of` world files had been read after each step."""

    model: str
    run: str
    of: int
    read: tuple[int, ...]
    usd: tuple[float | None, ...]
    """Spent by then."""


Point = tuple[float, float]
Line = list[Point]
"""A staircase: from each x on the share is y."""


def over_steps(curve: Curve) -> Line:
    return [(0.0, 0.0), *((float(step), count / curve.of) for step, count in enumerate(curve.read, 1))]


def over_money(curve: Curve) -> Line:
    """Empty when it is not known what each step cost: what was spent by then never grows less."""
    spent = [usd for usd in curve.usd if usd is not None]
    if not spent or len(spent) < len(curve.read) or spent != sorted(spent):
        return []
    return [(0.0, 0.0), *((usd, count / curve.of) for usd, count in zip(spent, curve.read, strict=True))]


def median_line(lines: Sequence[Line]) -> Line:
    """At each x of any line the median share; a run that has ended keeps what it had."""
    places = sorted({x for line in lines for x, _ in line})
    return [(x, float(statistics.median(_at(line, x) for line in lines))) for x in places]


def _at(line: Line, x: float) -> float:
    return max((y for place, y in line if place <= x), default=0.0)


def tick_of(most: float, is_whole: bool) -> float:
    """The distance of marks: a round number, so that TICKS of them reach `most`."""
    least = most / TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(least))
    found = (float(f"{factor * power:.2g}") for factor in ROUND)
    return next((each for each in found if each >= least and not (is_whole and each % 1)), 10.0 * max(power, 1.0))


def svg(curves: Sequence[Curve]) -> str:
    """The whole picture; a panel without any line says so."""
    models = list(dict.fromkeys(curve.model for curve in curves))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-size="15">World files that were really read</text>',
    ]
    steps = [(curve, over_steps(curve)) for curve in curves]
    money = [(curve, line) for curve in curves if (line := over_money(curve))]
    parts += _panel(LEFT, "steps", steps, models)
    parts += _panel(LEFT + PANEL_WIDTH + GAP, "US dollars", money, models)
    parts += _legend(models, curves)
    return "\n".join([*parts, "</svg>", ""])


def _panel(left: int, unit: str, drawn: list[tuple[Curve, Line]], models: list[str]) -> Iterator[str]:
    bottom, right = TOP + PANEL_HEIGHT, left + PANEL_WIDTH
    most = TICKS * tick_of(max((line[-1][0] for _, line in drawn), default=0.0), is_whole=unit == "steps")
    for tick in range(TICKS + 1):
        y, x = bottom - PANEL_HEIGHT * tick / TICKS, left + PANEL_WIDTH * tick / TICKS
        yield f'<path d="M{left} {y:g}H{right}" stroke="#ddd"/>'
        yield f'<text x="{left - 8}" y="{y + 4:g}" text-anchor="end">{100 * tick // TICKS} %</text>'
        yield f'<text x="{x:g}" y="{bottom + 18}" text-anchor="middle">{most * tick / TICKS:g}</text>'
    yield f'<path d="M{left} {TOP}V{bottom}H{right}" fill="none" stroke="#222"/>'
    yield f'<text x="{left + PANEL_WIDTH / 2:g}" y="{bottom + 36}" text-anchor="middle">{unit}</text>'
    if not drawn:
        middle = TOP + PANEL_HEIGHT // 2
        yield f'<text x="{left + PANEL_WIDTH / 2:g}" y="{middle}" text-anchor="middle">no run tells this</text>'

    def path(line: Line, model: str, width: float, opacity: float) -> str:
        number = models.index(model)
        dash = f' stroke-dasharray="{DASHES[number % len(DASHES)]}"' if number % len(DASHES) else ""
        stairs = _stairs(((left + PANEL_WIDTH * x / most, bottom - PANEL_HEIGHT * y) for x, y in _thinned(line)))
        return (
            f'<path d="{stairs}" fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="{width:g}" '
            f'stroke-opacity="{opacity:g}"{dash}><title>{escape(model)}</title></path>'
        )

    for model in models:
        lines = [line for curve, line in drawn if curve.model == model]
        for line in lines:
            yield path(line, model, 1.0 if len(lines) > 1 else 2.5, 0.35 if len(lines) > 1 else 1.0)
        if len(lines) > 1:
            yield path(median_line(lines), model, 2.5, 1.0)


def _thinned(line: Line) -> Line:
    every = -(-len(line) // MOST_POINTS)
    return line if every == 1 else [*line[::every], line[-1]]


def _stairs(points: Iterable[Point]) -> str:
    """An SVG path: level, then up."""
    (x, y), *rest = points
    return f"M{x:.1f} {y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)


def _legend(models: list[str], curves: Sequence[Curve]) -> Iterator[str]:
    y = TOP + PANEL_HEIGHT + 64
    for number, model in enumerate(models[:12]):
        left, top = LEFT + (number % 3) * 290, y + (number // 3) * 18
        dash = f' stroke-dasharray="{DASHES[number % len(DASHES)]}"' if number % len(DASHES) else ""
        colour, runs = COLOURS[number % len(COLOURS)], sum(curve.model == model for curve in curves)
        yield f'<path d="M{left} {top - 4}h26" stroke="{colour}" stroke-width="2.5"{dash}/>'
        yield f'<text x="{left + 32}" y="{top}">{escape(model[:36])} ({runs})</text>'
