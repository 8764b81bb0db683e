"""Compares runs: python3 scoring/compare.py runs/*/

A row is a figure, a column a model: the median of its runs, with the least and the greatest. Two worlds differ in what
can be found, so that models are compared within one world."""

from __future__ import annotations

import hashlib
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from scorer import read_json, score

FIGURES = ("coverage_files", "efficiency_success_rate", "latency_median_s", "tools_count", "steps", "tools_reused")
KNOWN = ("found", "read", "right")


class Row(NamedTuple):
    """One run."""

    world: str
    model: str
    figures: dict[str, float]


def row_of(run: Path) -> Row:
    """Raises what `score` raises."""
    meta, report = read_json(run / "meta.json"), score(run)
    figures = {name: report[name] for name in (*FIGURES, "usd")}
    world = "a world without known.json"
    if known := report["known"]:
        # The list itself names the world: another generator may make another world of the same seed.
        world = f"world {hashlib.sha256((run / 'known.json').read_bytes()).hexdigest()[:8]}"
        figures |= {"found": known["found"] / known["files"], "read": known["read"] / known["files"]}
        figures |= {"right": len(known["right"]) / known["asked"]}
    model = ascii(meta.get("model") or meta["mode"])[1:-1]  # a name must not steer the terminal
    return Row(world, model, {name: value for name, value in figures.items() if value is not None})


def table(rows: list[Row]) -> list[str]:
    """Lines: a heading and the figures for each world."""
    lines: list[str] = []
    for world in dict.fromkeys(row.world for row in rows):
        here = [row for row in rows if row.world == world]
        of = {
            model: [row.figures for row in here if row.model == model] for model in sorted({row.model for row in here})
        }
        lines += [world, _line("", [f"{model} ({len(runs)})" for model, runs in of.items()])]
        for name in (*FIGURES, "usd", *KNOWN):
            lines.append(_line(name, [_cell([run[name] for run in runs if name in run]) for runs in of.values()]))
        lines.append("")
    return lines


def _cell(values: list[float]) -> str:
    if not values:
        return "-"
    median = f"{statistics.median(values):.4g}"
    return median if len(values) == 1 else f"{median} [{min(values):.4g}, {max(values):.4g}]"


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<24}" + "".join(f"{cell:>28}" for cell in cells)


def main() -> int:
    rows: list[Row] = []
    for run in map(Path, sys.argv[1:]):
        try:
            rows.append(row_of(run))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"compare.py: {run} is left out: {error!r}", file=sys.stderr)
    if not rows:
        print("usage: compare.py RUN…", file=sys.stderr)
        return 1
    print("\n".join(table(rows)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
