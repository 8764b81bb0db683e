"""The mind's standing duties, done while the runner has nothing else to do.

A period is a UTC day or an ISO week. A duty is due once the present period is later than the last one it was done for,
as the log of events tells. A try is told before it begins, so that nothing, not even the end of the process, has a
duty made for one period more than MOST_TRIES times."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from infra.cell.mind import clone, learn, profile
from infra.cell.mind.health import check_sandbox
from infra.cell.mind.history import DutyStep, History, history_of
from infra.cell.mind.memory import tell_of
from infra.cell.mind.mind import MindContext, is_tainted
from infra.cell.mind.record import tell
from infra.cell.mind.skill_care import DEPRECATION_SCAN, SkillCare
from infra.cell.tools.tool import OutOfTime, within
from infra.shared.clock import timestamp
from infra.shared.mind.layout import FAILURES
from infra.shared.text import cut, one_line

MOST_TRIES: Final = 3
DUTY_SECONDS: Final = 900.0
"""The longest that one may take."""
_WHY_CHARS = 300


class Duty(NamedTuple):
    name: str
    work: Callable[[MindContext, str], str]
    """Does it for a period, and gives in a few words what came of it. Whatever it raises is a failed try."""
    is_weekly: bool = False
    catch_up: int = 1
    """After a down time, so many of the periods that were missed are done, the last ones."""
    at_start: bool = False
    """Due when its period begins; else when it has ended, and then it is about that one."""
    steers: bool = True
    """It writes what is placed before later runs, which the door takes from no tainted agent."""

    def period(self, day: datetime.date) -> str:
        """`2026-01-31` or `2026-W05`; names of one kind sort by time."""
        return f"{day:%G-W%V}" if self.is_weekly else day.isoformat()


def _reset_exploration(context: MindContext, day: str) -> str:
    """The doors count by UTC day by themselves; here it is said what a new day may use up."""
    usd = context.exploration_usd
    return "no exploration (exploration.usd is not set)" if usd is None else f"up to {usd:g} USD"


def _profile_week(context: MindContext, week: str) -> str:
    days, runs = learn.days_of(week), history_of(context.places.events).runs.values()
    return profile.compile_week(context.places.mind, [run for run in runs if run.ended[:10] in days], week)


DUTIES: Final = (
    Duty("exploration_reset", _reset_exploration, at_start=True, steers=False),
    Duty("health_check", lambda mind, _: check_sandbox(mind), at_start=True, steers=False),
    Duty("daily_summary", learn.make_daily, catch_up=7),
    Duty("skill_review", lambda mind, _: SkillCare(mind).daily(), at_start=True),
    Duty("context_profile", _profile_week, is_weekly=True, steers=False),
    Duty(DEPRECATION_SCAN, lambda mind, _: SkillCare(mind).weekly(), is_weekly=True),
    Duty("recheck", lambda mind, _: learn.recheck(mind), at_start=True),
    Duty("weekly_review", learn.make_weekly, is_weekly=True),
)
"""In the order in which they are done."""


class DutyRecord(NamedTuple):
    """What the log tells of one duty."""

    over: Collection[str] = ()
    """Periods for which it was done, or tried MOST_TRIES times."""
    why: str = ""
    """Of the last try, when it failed."""


def record_of(history: History, name: str) -> DutyRecord:
    steps = [told.fact for told in history.entries(DutyStep) if told.fact.name == name]
    begun = [step.period for step in steps if step.state == "began"]
    over = {step.period for step in steps if step.state == "done" or begun.count(step.period) >= MOST_TRIES}
    last = [step.state for step in steps[-2:]]
    why = "it began, and its end was not told" if last == ["began", "began"] else ""
    return DutyRecord(over, steps[-1].words if last[-1:] == ["failed"] else why)


def due(duty: Duty, record: DutyRecord, today: datetime.date, born: datetime.date) -> list[str]:
    """The periods to do it for, the oldest first; the first time of all it is one, and none that ended before the log
    was `born`. A clock that was set back brings nothing again; a record from the future holds up nothing."""
    step, behind = datetime.timedelta(days=7 if duty.is_weekly else 1), 0 if duty.at_start else 1
    window = [duty.period(today - step * (behind + back)) for back in reversed(range(duty.catch_up))]
    past = [period for period in record.over if period <= window[-1]]
    found = [period for period in window if period > max(past)] if past else window[-1:]
    return [period for period in found if period >= duty.period(min(born, today))]


class Maintenance:
    """The duties of one runner's life."""

    def __init__(
        self, beat: Callable[[str, float], None], duties: Sequence[Duty] = DUTIES, seconds: float = DUTY_SECONDS
    ) -> None:
        """`beat` promises that what it names ends in so many seconds."""
        self._beat, self._duties, self._seconds = beat, duties, seconds
        self._waits = set[tuple[str, str]]()
        """What failed since the clock ticked last."""

    def tend(self, context: MindContext, ticked: bool, has_work: Callable[[], bool]) -> bool:
        """Do what is due, unless there is other work to do, which is asked before each; whether all was done that
        could be. Raises Interrupted, OSError."""
        if ticked:
            self._waits.clear()
        found, did = self.due(context), list[str]()
        if found:
            clone.prepare(context)
        try:
            for duty, period in found:
                context.interruption.check()
                if has_work():
                    return False
                context.record(())  # what cannot be told is not done: it would be done again and again
                tell(context, DutyStep(duty.name, period, "began"))
                self._beat(f"maintaining: {duty.name}", self._seconds)
                self._do(context, duty, period)
                did.append(f"{duty.name} {period}")
        except OSError as error:
            context.note("mind.duties_wait", error=str(error))
        finally:
            if found or ticked:
                _write_metrics(context)
            if did:
                self._beat("committing the mind", self._seconds)
                clone.publish(context, f"maintenance: {', '.join(did)}", f"maintenance-{timestamp(context.now())}")
        return True

    def due(self, context: MindContext) -> list[tuple[Duty, str]]:
        """While the agent is tainted, what steers later runs waits. Raises OSError without a log."""
        if not os.path.isdir(f"{context.places.mind}/.git"):
            return []
        history = history_of(context.places.events)
        today = datetime.datetime.fromtimestamp(context.now(), datetime.UTC).date()
        born, found = datetime.date.fromisoformat(history.first_day[:10] or str(today)), list[tuple[Duty, str]]()
        for duty in self._duties:
            periods = due(duty, record_of(history, duty.name), today, born)
            found += [(duty, period) for period in periods if (duty.name, period) not in self._waits]
        may_steer = not any(duty.steers for duty, _ in found) or not is_tainted(context)
        return [each for each in found if may_steer or not each[0].steers]

    def _do(self, context: MindContext, duty: Duty, period: str) -> None:
        """Raises OSError when its end cannot be told."""
        try:
            words = cut(within(self._seconds, lambda: duty.work(context, period)), _WHY_CHARS)
        except (Exception, OutOfTime) as error:
            why = str(error) if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"
            if isinstance(error, OutOfTime):
                why = f"it had not ended after {self._seconds:g} s"
            why = cut(one_line(why), _WHY_CHARS)
            self._waits.add((duty.name, period))
            tell(context, DutyStep(duty.name, period, "failed", why))
            context.note("mind.duty_failed", duty=duty.name, period=period, error=why)
            is_over = period in record_of(history_of(context.places.events), duty.name).over
            then = "It is not tried again." if is_over else "It is tried again at the next tick."
            tell_of(context.places.mind, FAILURES, f"Duty {duty.name} {period}", f"It failed: {why}\n\n{then}")
        else:
            tell(context, DutyStep(duty.name, period, "done", words))
            context.note("mind.duty_done", duty=duty.name, period=period, words=words)


def _write_metrics(context: MindContext) -> None:
    from infra.cell.mind.metrics import write_metrics

    try:
        write_metrics(context)
    except OSError as error:
        context.note("mind.metrics_not_written", error=str(error))
