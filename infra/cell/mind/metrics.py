"""`metrics/minifram.prom`: figures on the mind in Prometheus' text format, for a node exporter's textfile collector;
written in one step after each run, each duty, and when the clock ticks. What is counted is counted from the log."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple, get_args

from infra.cell.cell import Cell
from infra.cell.mind import memory
from infra.cell.mind.history import History, Promoted, Trial, history_of
from infra.cell.mind.skills import STATES

FILE: Final = "metrics/minifram.prom"
MAX_SERIES: Final = 200
"""Of one name."""


class Metric(NamedTuple):
    name: str
    """A counter's ends with `_total`; all others are gauges."""
    help: str
    values: Mapping[str, float]
    """By the value of the label."""
    label: str = ""


def write_metrics(cell: Cell) -> None:
    """Raises OSError."""
    root = cell.boot.places.mind
    memory.write(root, FILE, "".join(map(_shown, _metrics(history_of(cell.boot.places.events), root, cell.wall()))))


def _metrics(history: History, root: str, now: float) -> tuple[Metric, ...]:
    runs, beliefs = history.runs.values(), Counter(dict.fromkeys(get_args(memory.Status), 0))
    failures = Counter(skill for run in runs if run.succeeded is False for skill in run.skills)
    trials = (told.fact for told in history.entries(Trial))
    failures.update(each.skill for each in trials if each.kind == "self_test" and not each.passed)
    contradicted = sum(told.fact.what in ("contested", "superseded") for told in history.entries(Promoted))
    with suppress(OSError):  # what cannot be read costs its own figures alone
        beliefs.update(each.status for each in memory.read(root).every if each.id[0] == "B")
    completed = sum(len(run.completed) for run in runs)
    tokens = round(history.context_tokens / max(1, history.acts), 1)
    skills = {state: _folders(f"{root}/skills/{state}") for state in STATES}
    return (
        Metric("agent_tasks_completed_total", "Directives and tasks that were completed.", {"": completed}),
        Metric("agent_skill_failures_total", "Failed runs with a skill, and self-tests.", failures, "skill"),
        Metric("agent_contradictions_total", "Contradictions that were found.", {"": contradicted}),
        Metric("agent_context_tokens_avg", "Mean length of a conversation at an act, in tokens.", {"": tokens}),
        Metric("agent_skills", "Skills by state.", skills, "status"),
        Metric("agent_beliefs", "Beliefs by status.", beliefs, "status"),
        Metric("agent_last_tick_timestamp_seconds", "When the work loop looked last.", {"": round(now, 3)}),
    )


def _folders(path: str) -> int:
    return sum(entry.is_dir() for entry in os.scandir(path)) if os.path.isdir(path) else 0


def _shown(metric: Metric) -> str:
    kind = "counter" if metric.name.endswith("_total") else "gauge"
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {kind}"]
    for text, value in sorted(metric.values.items())[:MAX_SERIES]:
        label = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "?", text).replace("\\", r"\\").replace('"', r"\"")
        series = f'{metric.name}{{{metric.label}="{label}"}}' if metric.label else metric.name
        shown = int(value) if math.isfinite(value) and value == int(value) else float(value)
        lines.append(f"{series} {shown}")
    return "\n".join(lines) + "\n" if metric.values else ""
