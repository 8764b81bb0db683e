"""Figures on an agent's mind in Prometheus' text format, for a node exporter's textfile collector. Pure.

What is counted is counted from events: a tally for each day's file, so that a restart loses nothing and only the files
that grew are read again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from infra.cell.mind.skill_record import SELF_TEST, outcome_of, used_in
from infra.shared.mind.event import MindEvent

FILE: Final = "metrics/minifram.prom"
STATE: Final = "metrics/state.json"
MOST_STATE_BYTES: Final = 4 << 20
MOST_DAYS: Final = 60
"""Whose tallies are kept apart; older ones are added up."""
MAX_SERIES: Final = 200
"""Of one name."""
RECALL: Final = "recall"


class Metric(NamedTuple):
    name: str
    type: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


METRICS: Final = (
    Metric("agent_tasks_completed_total", "counter", "Directives and tasks that a run ended with its report."),
    Metric("agent_runs_total", "counter", "Runs by how they ended.", ("end",)),
    Metric("agent_run_failures_total", "counter", "Runs that ended at a bound or a failure of their own."),
    Metric("agent_events_total", "counter", "Lines of the log of events."),
    Metric("agent_errors_total", "counter", "Events of the type error."),
    Metric("agent_tokens_total", "counter", "Tokens of the runs' model calls by kind.", ("kind",)),
    Metric("agent_cost_usd_total", "counter", "Cost of the runs' model calls, as the model door books it.", ("label",)),
    Metric("agent_exploration_usd_total", "counter", "Cost of exploration, as the events say."),
    Metric("agent_context_tokens_avg", "gauge", "Mean length of a conversation at an act, in tokens."),
    Metric("agent_recalls_total", "counter", "Searches of the mind."),
    Metric("agent_recall_seconds_total", "counter", "Time that searches of the mind took."),
    Metric("agent_skill_uses_total", "counter", "Runs that used a skill.", ("skill",)),
    Metric("agent_skill_failures_total", "counter", "Failed runs that used a skill; failed self-tests.", ("skill",)),
    Metric("agent_skills", "gauge", "Skills by state.", ("status",)),
    Metric("agent_promotions_total", "counter", "Statements that became long-term memory or beliefs.", ("to",)),
    Metric("agent_contradictions_total", "counter", "Contradictions that were found."),
    Metric("agent_beliefs", "gauge", "Beliefs by status.", ("status",)),
    Metric("agent_last_tick_timestamp_seconds", "gauge", "When the work loop looked last, in seconds since the epoch."),
    Metric("agent_last_run_timestamp_seconds", "gauge", "When the last run ended."),
    Metric("agent_duty_done_timestamp_seconds", "gauge", "When a standing duty was done last.", ("duty",)),
    Metric("agent_duty_failed", "gauge", "1 when the last try of a standing duty failed.", ("duty",)),
)


class DayTally(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of the events in one file."""

    size: int = 0
    """Of the file when it was read."""
    events: int = 0
    errors: int = 0
    completed: int = 0
    ends: dict[str, int] = {}
    failures: int = 0
    context_tokens: int = 0
    acts: int = 0
    """Events that say how long the conversation was."""
    recalls: int = 0
    recall_ms: int = 0
    uses: dict[str, int] = {}
    skill_failures: dict[str, int] = {}
    exploration_usd: float = 0.0
    last_run: str = ""
    """When a run ended last."""

    def plus(self, other: DayTally) -> DayTally:
        return DayTally(
            events=self.events + other.events,
            errors=self.errors + other.errors,
            completed=self.completed + other.completed,
            ends=_sum(self.ends, other.ends),
            failures=self.failures + other.failures,
            context_tokens=self.context_tokens + other.context_tokens,
            acts=self.acts + other.acts,
            recalls=self.recalls + other.recalls,
            recall_ms=self.recall_ms + other.recall_ms,
            uses=_sum(self.uses, other.uses),
            skill_failures=_sum(self.skill_failures, other.skill_failures),
            exploration_usd=self.exploration_usd + other.exploration_usd,
            last_run=max(self.last_run, other.last_run),
        )


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *(key for key in other if key not in one))}


class MetricsState(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int = 1
    days: dict[str, DayTally] = {}
    """By the name of the file."""
    before: DayTally = DayTally()
    """Of the days that are not kept apart any more."""
    before_day: str = ""
    """The last one of them."""
    tokens: dict[str, int] = {}
    """By kind, of all runs."""
    usd: dict[str, float] = {}
    """By label."""

    @property
    def whole(self) -> DayTally:
        found = self.before
        for tally in self.days.values():
            found = found.plus(tally)
        return found

    def with_days(self, days: Mapping[str, DayTally]) -> MetricsState:
        """These read anew; what is older than MOST_DAYS days is added up."""
        every = {path: tally for path, tally in {**self.days, **days}.items() if path > self.before_day}
        old = sorted(every)[:-MOST_DAYS]
        before = self.before
        for path in old:
            before = before.plus(every.pop(path))
        last = old[-1] if old else self.before_day
        return msgspec.structs.replace(self, days=every, before=before, before_day=last)

    def with_use(self, tokens: Mapping[str, int], usd: float, label: str) -> MetricsState:
        spent = {**self.usd, label: round(self.usd.get(label, 0.0) + usd, 9)} if usd else self.usd
        return msgspec.structs.replace(self, tokens=_sum(self.tokens, tokens), usd=spent)


def tally_of(events: Iterable[MindEvent], size: int) -> DayTally:
    counts = dict.fromkeys(("events", "errors", "completed", "failures", "tokens", "acts", "recalls", "ms"), 0)
    ends: dict[str, int] = {}
    uses: dict[str, set[str]] = {}
    failed: dict[str, int] = {}
    ended: dict[str, bool | None] = {}
    usd, last_run = 0.0, ""
    for event in events:
        metadata = event.metadata
        counts["events"] += 1
        counts["errors"] += event.event_type == "error"
        usd += metadata.curiosity_spend if metadata.curiosity_spend > 0 else 0.0
        if event.event_type != "task_update" and metadata.context_tokens > 0:
            counts["acts"] += 1
            counts["tokens"] += metadata.context_tokens
        if metadata.tool == RECALL:
            counts["recalls"] += 1
            counts["ms"] += max(0, event.execution.duration_ms)
        if metadata.tool == SELF_TEST and metadata.status == "failed":
            skill = str(metadata.details.get("skill", "?"))
            failed[skill] = failed.get(skill, 0) + 1
        if reference := used_in(event):
            uses.setdefault(reference, set()).add(event.run_id)
        if event.event_type == "task_update" and "steps" in metadata.details:  # the end of a run
            ends[metadata.status] = ends.get(metadata.status, 0) + 1
            ended[event.run_id] = outcome_of(metadata.status)
            counts["failures"] += ended[event.run_id] is False
            last_run = max(last_run, event.timestamp)
            if ended[event.run_id]:
                about = metadata.details.get("directives")
                counts["completed"] += len(about) if isinstance(about, list) else 1
    for skill, runs in uses.items():
        if lost := sum(ended.get(run) is False for run in runs):
            failed[skill] = failed.get(skill, 0) + lost
    return DayTally(
        size,
        counts["events"],
        counts["errors"],
        counts["completed"],
        ends,
        counts["failures"],
        counts["tokens"],
        counts["acts"],
        counts["recalls"],
        counts["ms"],
        {skill: len(runs) for skill, runs in uses.items()},
        failed,
        round(usd, 9),
        last_run,
    )


Samples = Mapping[str, Mapping[tuple[str, ...], float]]
"""Values by name and by the values of the labels."""


def render(samples: Samples) -> str:
    """Those of METRICS, in its order; each with its HELP and TYPE."""
    lines: list[str] = []
    for metric in METRICS:
        values = samples.get(metric.name, {})
        if not values:
            continue
        lines += [f"# HELP {metric.name} {_help(metric.help)}", f"# TYPE {metric.name} {metric.type}"]
        series: dict[str, float] = {}
        for labels, value in sorted(values.items())[:MAX_SERIES]:
            pairs = ",".join(f'{name}="{_label(text)}"' for name, text in zip(metric.labels, labels, strict=True))
            series[f"{metric.name}{{{pairs}}}" if pairs else metric.name] = value
        lines += [f"{name} {_number(value)}" for name, value in series.items()]
    return "\n".join(lines) + "\n" if lines else ""


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _label(text: str) -> str:
    clean = re.sub(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]", "?", text)
    return clean.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
