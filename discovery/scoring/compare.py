"""Compares runs by their models: python3 compare.py RUN… [--svg FILE] [--json]

Runs are paired by their world: what differs between two worlds is no model's merit. A figure is a median with its 95 %
bootstrap interval. What was read of the world is what the host saw being read (witness.jsonl), not what was printed."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import coverage_picture
import read_run
import run_files
import scorer
import statistics_of_runs
from coverage_picture import Curve
from run_values import Run
from statistics_of_runs import Estimate, Pair, Scored
from visible import visible

SCORE_FILE, SCORE_BYTES = "score.json", 16 << 20
VERSION = 1
NAME_CHARS, WARNING_CHARS = 80, 2000
"""As they are shown: names of models, runs and worlds, and warnings."""
MOST_USD = 1e9
EXIT_CODES = "exit codes: 0 compared, 1 no run could be read, 2 the command was not understood"

FIGURES: Mapping[str, tuple[str, ...]] = {
    "files_read": ("honest", "files_read", "share"),
    "questions_right": ("honest", "questions", "share"),
    "checkpoints_found": ("honest", "checkpoints", "found"),
    "checkpoints_touched": ("honest", "checkpoints", "touched"),
    "checkpoints_used": ("honest", "checkpoints", "used"),
    "success": ("honest", "success", "rate"),
    "tools_written": ("honest", "tools", "written"),
    "tools_reused": ("honest", "tools", "reused"),
    "tools_work_on_other_data": ("honest", "tools", "work_on_other_data"),
    **{
        f"true_in_{name}": ("honest", "artifacts", name, "share")
        for name in ("MAP.md", "LOG.md", "TOOLS.md", "PLAN.md")
    },
    "coverage_files": ("coverage_files",),
    "efficiency_success_rate": ("efficiency_success_rate",),
    "latency_median_s": ("latency_median_s",),
    "tools_count": ("tools_count",),
    "steps": ("steps",),
}
"""Name -> where the scorer has it. Those of checkpoints are shares of their number here, so that worlds of several
sizes can be compared. `usd` comes from the events."""
NAMES = (*FIGURES, "usd")


class Read(NamedTuple):
    """What is taken of one run."""

    scored: Scored
    curve: Curve | None
    """None when the host could not see what was read, or it is not known what there was."""


class Compared(NamedTuple):
    runs: list[Scored]
    models: dict[str, dict[str, Estimate]]
    pairs: list[Pair]
    unpaired: list[str]
    curves: list[Curve]


def read(directory: Path, score: Mapping[str, Any] | None = None) -> Read:
    """One run; `score` instead of its stored or its own. Raises Refused, Unreadable and ValueError for a bad one."""
    run = read_run.read_run(directory)
    spent = [_spent(command.usd) for command in read_run.commands(directory, read_run.Warnings())]
    figures = _figures(score if score is not None else _score(directory))
    figures["usd"] = next((usd for usd in reversed(spent) if usd is not None), None)
    model = visible(run.meta.model or run.meta.mode or "", NAME_CHARS)
    if not model:
        raise ValueError("its meta.json says neither which model explored nor in which mode")
    name = visible(run.name, NAME_CHARS)
    return Read(Scored(name, model, *_world(run), figures), _curve(run, model, spent))


def compare(found: list[Read]) -> Compared:
    runs = [each.scored for each in found]
    models = {model: statistics_of_runs.estimates(of, NAMES) for model, of in statistics_of_runs.by_model(runs).items()}
    curves = [each.curve for each in found if each.curve]
    return Compared(runs, models, statistics_of_runs.pairs(runs, NAMES), statistics_of_runs.unpaired(runs), curves)


def _score(directory: Path) -> Mapping[str, Any]:
    """The one that was stored with the run, or the scorer's now, without trials of its tools."""
    content = run_files.read_bounded(directory / SCORE_FILE, SCORE_BYTES)
    if content is None:
        return scorer.score(directory, tools=False)
    stored = run_files.parse_json(content)
    if not isinstance(stored, dict):
        raise ValueError(f"{SCORE_FILE} holds no object; remove it, and the run is scored again")
    return stored


def _spent(usd: float | None) -> float | None:
    """None for what nobody spends."""
    return usd if usd is not None and 0 <= usd <= MOST_USD else None


def _figures(score: Mapping[str, Any]) -> dict[str, float | None]:
    figures = {name: _number(score, *path) for name, path in FIGURES.items()}
    of = _number(score, "honest", "checkpoints", "of")
    for name in ("checkpoints_found", "checkpoints_touched", "checkpoints_used"):
        count = figures[name]
        figures[name] = count / of if count is not None and of else None
    return figures


def _number(value: Any, *path: str) -> float | None:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return run_files.finite(value)


def _world(run: Run) -> tuple[str, str]:
    """What two runs of the same world have in common, and the world in words: the same files, else seed and size."""
    seed, size = run.meta.world_seed, run.meta.world_size
    words = "the seed world" if seed is None else visible(f"seed {seed}, size {size}", NAME_CHARS)
    if run.known:
        listed = sorted(f"{path}\0{file.sha256}" for path, file in run.known.files.items())
        digest = hashlib.sha256("\n".join(listed).encode(errors="replace")).hexdigest()
        return digest, words if seed is not None else f"{words}, {digest[:8]}"
    return ("" if seed is None else visible(f"{seed}/{size}", NAME_CHARS)), words


def _curve(run: Run, model: str, spent: list[float | None]) -> Curve | None:
    if not run.known or not run.known.files or not run.witness or not run.witness.world:
        return None
    seen: set[str] = set()
    counts = []
    for step in range(1, len(spent) + 1):
        seen |= run.witness.at(step).read & run.known.files.keys()
        if step == len(spent):  # what was read behind the last step belongs to it
            seen |= run.witness.at(None).read & run.known.files.keys()
        counts.append(len(seen))
    return Curve(model, visible(run.name, NAME_CHARS), len(run.known.files), tuple(counts), tuple(spent))


# --- showing -------------------------------------------------------------------------------------


def as_json(found: Compared, warnings: list[str]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "runs": [run._asdict() for run in found.runs],
        "models": {
            model: {name: each._asdict() for name, each in figures.items()} for model, figures in found.models.items()
        },
        "pairs": [
            {**pair._asdict(), "figures": {name: each._asdict() for name, each in pair.figures.items()}}
            for pair in found.pairs
        ],
        "unpaired": found.unpaired,
        "warnings": warnings,
    }


def table(found: Compared) -> Iterator[str]:
    """Lines: the figures of each model, then the differences of each pair."""
    groups = statistics_of_runs.by_model(found.runs)
    heads = [f"{model} ({len(runs)})" for model, runs in groups.items()]
    rows = [[name, *(_shown(found.models[model].get(name)) for model in groups)] for name in NAMES]
    yield "median [95 % interval] of the runs"
    yield from _columns([["", *heads], *(row for row in rows if any(cell != "-" for cell in row[1:]))])
    for pair in found.pairs:
        yield ""
        if not pair.worlds:
            yield f"{pair.a} and {pair.b}: no world that both explored, so nothing is paired"
            continue
        yield f"{pair.b} less {pair.a}, paired by world ({len(pair.worlds)}): {'; '.join(pair.worlds[:12])}"
        yield from _columns([[name, _shown(pair.figures.get(name), signed=True)] for name in pair.figures])
    if found.unpaired:
        yield ""
        yield from (f"not paired  {line}" for line in found.unpaired)


def _shown(each: Estimate | None, signed: bool = False) -> str:
    if each is None:
        return "-"
    sign = "+" if signed else ""
    if each.low is None or each.high is None:
        return f"{_rounded(each.median, sign)} (1)"
    return f"{_rounded(each.median, sign)} [{_rounded(each.low, sign)}, {_rounded(each.high, sign)}]"


def _rounded(value: float, sign: str) -> str:
    digits = 3 if abs(value) < 10 else 1
    text = f"{round(value, digits) + 0.0:{sign}.{digits}f}"
    return text.rstrip("0").rstrip(".") if math.isfinite(value) else text


def _columns(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


# --- the command ---------------------------------------------------------------------------------


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="compare.py", description=(__doc__ or "").split("\n\n")[1], epilog=EXIT_CODES)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a directory of a run")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw what was read, over steps and over money")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args(words)
    found, warnings = list[Read](), list[str]()
    for directory in dict.fromkeys(given.runs):
        try:
            one = read(directory)
        except (read_run.Refused, run_files.Unreadable, ValueError, OSError) as error:
            warnings.append(visible(f"{directory} is left out: {error}", WARNING_CHARS))
            continue
        found.append(one)
        if one.curve is None:
            why = "what was read of its world is not known"
            warnings.append(visible(f"{directory} is not in the picture: {why}", WARNING_CHARS))
    compared = compare(found)
    for line in warnings:
        print(f"compare: {line}", file=sys.stderr)
    if not found:
        print("compare: no run could be read. Name directories of runs, such as runs/*/", file=sys.stderr)
        return 1
    if given.svg:
        try:
            given.svg.write_text(coverage_picture.svg(compared.curves), encoding="utf-8")
        except OSError as error:
            print(f"compare: {given.svg} cannot be written: {error.strerror}", file=sys.stderr)
            return 1
    if given.json:
        print(json.dumps(as_json(compared, warnings), ensure_ascii=False, indent=1))
    else:
        print("\n".join(table(compared)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
