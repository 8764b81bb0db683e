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

from infra.cell.mind import memory
from infra.cell.mind.duties import DUTIES, why_failed
from infra.cell.mind.history import History, Promoted, Trial, history_of
from infra.cell.mind.mind import MindContext
from infra.cell.mind.skills import STATES

FILE: Final = "metrics/minifram.prom"
MAX_SERIES: Final = 200
"""Of one name."""


class Metric(NamedTuple):
    name: str
    """A counter's ends with `_total`; all others are gauges."""
    help: str
    label: str = ""


METRICS: Final = (
    Metric("agent_tasks_completed_total", "Directives and tasks that were completed."),
    Metric("agent_runs_total", "Runs by how they ended.", "end"),
    Metric("agent_skill_failures_total", "Failed runs with a skill, and self-tests.", "skill"),
    Metric("agent_skill_uses_total", "Runs that used a skill.", "skill"),
    Metric("agent_contradictions_total", "Contradictions that were found."),
    Metric("agent_context_tokens_avg", "Mean length of a conversation at an act, in tokens."),
    Metric("agent_skills", "Skills by state.", "status"),
    Metric("agent_beliefs", "Beliefs by status.", "status"),
    Metric("agent_last_tick_timestamp_seconds", "When the work loop looked last."),
    Metric("agent_duty_failed", "1 when the last try of a standing duty failed.", "duty"),
)


def write_metrics(context: MindContext) -> None:
    """Raises OSError."""
    root = context.places.mind
    found = _values(history_of(context.places.events), root, context.now())
    memory.write(root, FILE, "".join(_shown(each, found[each.name]) for each in METRICS))


def _values(history: History, root: str, now: float) -> dict[str, Mapping[str, float]]:
    """By name and by the value of the label."""
    runs, statuses = history.runs.values(), Counter[str]()
    failures = Counter(skill for run in runs if run.succeeded is False for skill in run.skills)
    trials = (told.fact for told in history.entries(Trial))
    failures.update(each.skill for each in trials if each.kind == "self_test" and not each.passed)
    contradicted = sum(told.fact.what in ("contested", "superseded") for told in history.entries(Promoted))
    with suppress(OSError):  # what cannot be read costs its own figures alone
        statuses.update(each.status for each in memory.read(root).every if each.id[0] == "B")
    return {
        "agent_tasks_completed_total": {"": sum(len(run.completed) for run in runs)},
        "agent_runs_total": Counter(run.end for run in runs if run.end),
        "agent_skill_failures_total": failures,
        "agent_skill_uses_total": {skill: len(uses) for skill, uses in history.uses.items()},
        "agent_contradictions_total": {"": contradicted},
        "agent_context_tokens_avg": {"": round(history.context_tokens / max(1, history.acts), 1)},
        "agent_skills": {state: _folders(f"{root}/skills/{state}") for state in STATES},
        "agent_beliefs": {status: statuses[status] for status in get_args(memory.Status)},
        "agent_last_tick_timestamp_seconds": {"": round(now, 3)},
        "agent_duty_failed": {each.name: bool(why_failed(history, each.name)) for each in DUTIES},
    }


def _folders(path: str) -> int:
    return sum(entry.is_dir() for entry in os.scandir(path)) if os.path.isdir(path) else 0


def _shown(metric: Metric, values: Mapping[str, float]) -> str:
    kind = "counter" if metric.name.endswith("_total") else "gauge"
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {kind}"]
    for text, value in sorted(values.items())[:MAX_SERIES]:
        label = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "?", text).replace("\\", r"\\").replace('"', r"\"")
        series = f'{metric.name}{{{metric.label}="{label}"}}' if metric.label else metric.name
        shown = int(value) if math.isfinite(value) and value == int(value) else float(value)
        lines.append(f"{series} {shown}")
    return "\n".join(lines) + "\n" if values else ""
