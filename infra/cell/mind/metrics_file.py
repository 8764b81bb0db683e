"""Writes `metrics/minifram.prom` in one step: after each run, each duty, and when the clock ticks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from infra.cell.mind.beliefs import BELIEFS_FILE
from infra.cell.mind.claims import BeliefStatus
from infra.cell.mind.duties import MOST_BYTES, DutyState, UnreadableState, state_of
from infra.cell.mind.duties import STATE as DUTIES
from infra.cell.mind.memory_files import read_log
from infra.cell.mind.metrics import FILE, MOST_STATE_BYTES, STATE, DayTally, MetricsState, Samples, render, tally_of
from infra.cell.mind.mind import MindContext
from infra.cell.mind.promoted import PROMOTIONS
from infra.cell.mind.run_use import RunUse
from infra.cell.mind.skill_files import SkillFiles
from infra.cell.mind.skills import SkillStatus
from infra.shared.clock import moment
from infra.shared.mind.event import event_files, logged_on
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below

_MOST_BELIEFS: Final = 16 << 20


def write_metrics(context: MindContext, use: RunUse | None = None, ticked_at: float = 0.0) -> None:
    """`use`: of a run that has just ended. Raises OSError."""
    root = context.places.mind
    below = Below(root)
    old = _state(below)
    state = old.with_days(dict(_tallies(Below(context.places.events), old)))
    if use:
        state = state.with_use(use.tokens, use.usd, use.label)
    os.makedirs(os.path.dirname(f"{root}/{FILE}"), exist_ok=True)
    if state != old:
        RedactedFile(f"{root}/{STATE}").replace(msgspec.json.encode(state, order="sorted") + b"\n")
    RedactedFile(f"{root}/{FILE}").replace(render(_samples(context, state, ticked_at or context.now())))


def _state(below: Below) -> MetricsState:
    """What cannot be read is counted anew from the events."""
    try:
        state = msgspec.json.decode(below.whole(STATE, MOST_STATE_BYTES), type=MetricsState)
    except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return MetricsState()
    return state if state.version == 1 else MetricsState()


def _tallies(events: Below, old: MetricsState) -> Iterator[tuple[str, DayTally]]:
    """Of the files that have another size than before."""
    for day in event_files(events):
        status = events.status(day)
        if status is None or day <= old.before_day:
            continue
        known = old.days.get(day)
        if known is None or known.size != status.st_size:
            found = (line.event for line in logged_on(events, day) if line.event)
            yield day, tally_of(found, status.st_size)


def _samples(context: MindContext, state: MetricsState, ticked_at: float) -> Samples:
    root, whole = context.places.mind, state.whole
    log = read_log(root).lines
    promoted = Counter(line.what for line in log if line.what in PROMOTIONS)
    statuses = Counter(skill.status.value for skill in SkillFiles(root).skills().found)
    beliefs = _beliefs(root, context.now())
    duties = _duties(root)
    samples: dict[str, dict[tuple[str, ...], float]] = {
        "agent_tasks_completed_total": {(): whole.completed},
        "agent_runs_total": {(end,): count for end, count in whole.ends.items()},
        "agent_run_failures_total": {(): whole.failures},
        "agent_events_total": {(): whole.events},
        "agent_errors_total": {(): whole.errors},
        "agent_tokens_total": {(kind,): count for kind, count in state.tokens.items()},
        "agent_cost_usd_total": {(label,): usd for label, usd in state.usd.items()},
        "agent_exploration_usd_total": {(): whole.exploration_usd},
        "agent_context_tokens_avg": {(): round(whole.context_tokens / whole.acts, 1) if whole.acts else 0},
        "agent_recalls_total": {(): whole.recalls},
        "agent_recall_seconds_total": {(): whole.recall_ms / 1000},
        "agent_skill_uses_total": {(skill,): count for skill, count in whole.uses.items()},
        "agent_skill_failures_total": {(skill,): whole.skill_failures.get(skill, 0) for skill in _skills(whole)},
        "agent_skills": {(status.value,): statuses[status.value] for status in SkillStatus},
        "agent_promotions_total": {(what,): promoted[what] for what in PROMOTIONS},
        "agent_contradictions_total": {(): sum(line.what == "contested" for line in log)},
        "agent_beliefs": {(status.value,): beliefs[status.value] for status in BeliefStatus},
        "agent_last_tick_timestamp_seconds": {(): round(ticked_at, 3)},
        "agent_duty_done_timestamp_seconds": {
            (name,): at for name, record in duties.duties.items() if (at := _seconds(record.at))
        },
        "agent_duty_failed": {(name,): float(bool(record.why)) for name, record in duties.duties.items()},
    }
    if last_run := _seconds(whole.last_run):
        samples["agent_last_run_timestamp_seconds"] = {(): last_run}
    return samples


def _skills(whole: DayTally) -> list[str]:
    return sorted({*whole.uses, *whole.skill_failures})


def _beliefs(root: str, now: float) -> Counter[str]:
    try:
        text = Below(root).whole(BELIEFS_FILE.path, _MOST_BELIEFS).decode(errors="replace")
    except OSError:
        return Counter()
    return Counter(belief.status.value for belief in BELIEFS_FILE.parse(text, now).found)


def _duties(root: str) -> DutyState:
    try:
        return state_of(Below(root).whole(DUTIES, MOST_BYTES))
    except (OSError, UnreadableState):
        return DutyState()


def _seconds(at: str) -> float:
    with suppress(ValueError):
        return moment(at)
    return 0.0
