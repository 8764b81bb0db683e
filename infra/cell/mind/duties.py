"""The mind's standing duties, done while the runner has nothing else to do.

A period is a UTC day or an ISO week. One rule, by the log of events: a duty is due when it was not yet done for the
newest period, and did not fail within the hour."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from infra.cell.cell import Cell
from infra.cell.mind import clone, learn, profile
from infra.cell.mind.health import check_sandbox
from infra.cell.mind.history import DutyStep, History, history_of
from infra.cell.mind.memory import tell_of
from infra.cell.mind.metrics import write_metrics
from infra.cell.mind.mind import guarded
from infra.cell.mind.record import tell
from infra.cell.mind.skill_care import DEPRECATION_SCAN, SkillCare
from infra.cell.tools.tool import OutOfTime, within
from infra.shared.clock import moment, timestamp
from infra.shared.mind.layout import FAILURES
from infra.shared.text import cut, one_line

AGAIN_SECONDS: Final = 3600.0
"""After a failure."""
DUTY_SECONDS: Final = 900.0
"""The longest that one may take."""
_WHY_CHARS = 300


class Duty(NamedTuple):
    name: str
    work: Callable[[Cell, str], str]
    """Does it for a period, and gives in a few words what came of it. Whatever it raises is a failure."""
    is_weekly: bool = False
    at_start: bool = False
    """Due when its period begins; else when it has ended, and then it is about that one."""
    steers: bool = True
    """It writes what is placed before later runs, which the door takes from no tainted agent."""

    def period(self, day: datetime.date) -> str:
        """`2026-01-31` or `2026-W05`; names of one kind sort by time."""
        return f"{day:%G-W%V}" if self.is_weekly else day.isoformat()


def _profile_week(cell: Cell, week: str) -> str:
    days, runs = learn.days_of(week), history_of(cell.boot.places.events).runs.values()
    return profile.compile_week(cell.boot.places.mind, [run for run in runs if run.ended[:10] in days], week)


DUTIES: Final = (
    Duty("exploration_reset", lambda cell, _: f"{cell.boot.exploration_usd or 0:g} USD", at_start=True, steers=False),
    Duty("health_check", lambda cell, _: check_sandbox(cell), at_start=True, steers=False),
    Duty("daily_summary", learn.learn),
    Duty("skill_review", lambda cell, _: SkillCare(cell).daily(), at_start=True),
    Duty("context_profile", _profile_week, is_weekly=True, steers=False),
    Duty(DEPRECATION_SCAN, lambda cell, _: SkillCare(cell).weekly(), is_weekly=True),
    Duty("recheck", lambda cell, _: learn.recheck(cell), at_start=True),
    Duty("weekly_review", learn.make_weekly, is_weekly=True),
)
"""In the order in which they are done."""


def why_failed(history: History, name: str) -> str:
    """Of the last time, when it failed; else empty."""
    last = next((told.fact for told in reversed(history.entries(DutyStep)) if told.fact.name == name), None)
    return last.words if last and last.state == "failed" else ""


def period_due(duty: Duty, history: History, now: float) -> str:
    """What it is to be done for now; empty for nothing, as for what ended before the log began. A clock that was set
    back brings nothing twice; a record from the future holds up nothing."""
    today = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
    born = datetime.date.fromisoformat(history.first_day[:10] or str(today))
    behind = datetime.timedelta(0 if duty.at_start else 7 if duty.is_weekly else 1)
    period = duty.period(today - behind)
    told = [each for each in history.entries(DutyStep) if (each.fact.name, each.fact.period) == (duty.name, period)]
    is_done = any(each.fact.state == "done" for each in told)
    waits = bool(told) and 0 <= now - moment(told[-1].at) < AGAIN_SECONDS
    return "" if is_done or waits or period < duty.period(min(born, today)) else period


def tend(
    cell: Cell, has_work: Callable[[], bool], duties: Sequence[Duty] = DUTIES, seconds: float = DUTY_SECONDS
) -> bool:
    """Do what is due, unless there is other work to do, which is asked before each; whether all was done that could
    be. Raises Interrupted, OSError."""
    found, did = due(cell, duties), list[str]()
    if found:
        clone.prepare(cell)
    try:
        for duty, period in found:
            cell.interruption.check()
            if has_work():
                return False
            cell.keep.record(())  # what cannot be told is not done: it would be done again and again
            cell.heartbeat.beat(f"maintaining: {duty.name}", seconds)
            _do(cell, duty, period, seconds)
            did.append(f"{duty.name} {period}")
    except OSError as error:
        cell.log.info("mind.duties_wait", error=str(error))
    finally:
        guarded(cell, "mind.metrics_not_written", lambda: write_metrics(cell))
        if did:
            cell.heartbeat.beat("committing the mind", seconds)
            clone.publish(cell, f"maintenance: {', '.join(did)}", f"maintenance-{timestamp(cell.wall())}")
    return True


def due(cell: Cell, duties: Sequence[Duty] = DUTIES) -> list[tuple[Duty, str]]:
    """While the agent is tainted, what steers later runs waits. Raises OSError without a log."""
    if not os.path.isdir(f"{cell.boot.places.mind}/.git"):
        return []
    history, now = history_of(cell.boot.places.events), cell.wall()
    found = [(duty, period) for duty in duties if (period := period_due(duty, history, now))]
    may_steer = not any(duty.steers for duty, _ in found) or not cell.keep.taint(now).is_tainted
    return [each for each in found if may_steer or not each[0].steers]


def _do(cell: Cell, duty: Duty, period: str, seconds: float) -> None:
    """Raises OSError when its end cannot be told."""
    try:
        words = cut(within(seconds, lambda: duty.work(cell, period)), _WHY_CHARS)
    except (Exception, OutOfTime) as error:
        why = str(error) if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"
        if isinstance(error, OutOfTime):
            why = f"it had not ended after {seconds:g} s"
        why = cut(one_line(why), _WHY_CHARS)
        tell(cell, DutyStep(duty.name, period, "failed", why))
        cell.log.info("mind.duty_failed", duty=duty.name, period=period, error=why)
        words = f"It failed: {why}\n\nIt is tried again after an hour."
        tell_of(cell.boot.places.mind, FAILURES, f"Duty {duty.name} {period}", words)
    else:
        tell(cell, DutyStep(duty.name, period, "done", words))
        cell.log.info("mind.duty_done", duty=duty.name, period=period, words=words)
