"""The standing duties: which are due, and what a runner that has nothing else to do does of them."""

from __future__ import annotations

import datetime
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.interruption import Interrupted
from infra.cell.mind.duties import DUTIES, Duty, DutyRecord, Maintenance, due, record_of
from infra.cell.mind.history import DutyStep, history_of
from infra.cell.mind.mind import MindContext
from infra.cell.mind.record import tell
from infra.shared.clock import moment
from infra.shared.mind.layout import FAILURES
from infra.shared.repository.git import Git
from tests.cell.mind.one_mind import OneMind
from tests.shared.rows import each_row

NOW = moment("2026-01-31T10:00:00")  # a Saturday, in the week 2026-W05
TODAY, LONG_AGO = datetime.date(2026, 1, 31), datetime.date(2000, 1, 1)
DAY = 86_400.0
DAILY, WEEKLY = DUTIES[2], DUTIES[-1]
CLOCKS = st.lists(st.integers(0, 400).map(lambda more: TODAY + datetime.timedelta(more)), min_size=1, max_size=12)


def over(*periods: str) -> DutyRecord:
    return DutyRecord(periods)


def test_the_first_time_each_duty_is_due_for_one_period() -> None:
    assert [f"{duty.name} {period}" for duty in DUTIES for period in due(duty, DutyRecord(), TODAY, LONG_AGO)] == [
        "exploration_reset 2026-01-31",
        "health_check 2026-01-31",
        "daily_summary 2026-01-30",
        "skill_review 2026-01-31",
        "context_profile 2026-W04",
        "deprecation_scan 2026-W04",
        "recheck 2026-01-31",
        "weekly_review 2026-W04",
    ]


@each_row(
    "duty, done, born, found",
    [
        (DAILY, ["2025-11-01"], "2000-01-01", [f"2026-01-{day}" for day in range(24, 31)]),
        (WEEKLY, ["2025-W44"], "2000-01-01", ["2026-W04"]),
        (DAILY, ["9999-12-31"], "2000-01-01", ["2026-01-30"]),  # told by a clock that was wrong
        (DAILY, ["2026-01-30"], "2000-01-01", []),
        (DAILY, [], "2026-01-31", []),
        (WEEKLY, [], "2026-01-30", []),
    ],
)
def test_what_is_due(duty: Duty, done: list[str], born: str, found: list[str]) -> None:
    assert due(duty, over(*done), TODAY, datetime.date.fromisoformat(born)) == found


@given(CLOCKS)
def test_nothing_is_done_twice_and_no_recent_day_is_left_out(clocks: list[datetime.date]) -> None:
    """The first whatever the clock does, the second as long as it goes forward."""
    for days in (clocks, sorted(clocks)):
        done = set[str]()
        for today in days:
            found = due(DAILY, over(*done), today, LONG_AGO)
            assert not done & set(found)
            done.update(found)
            assert due(DAILY, over(*done), today, LONG_AGO) == []
    week = [max(clocks) - datetime.timedelta(back) for back in range(1, 8)]
    assert {str(day) for day in week if day >= min(clocks) - datetime.timedelta(1)} <= done


class Played:
    """Duties that only tell that they were done; `works`, by name, in the place of that."""

    def __init__(self, **works: Any) -> None:
        self.did, self.beats = list[str](), list[str]()
        self.duties = [self._played(duty, works.get(duty.name)) for duty in (DUTIES[0], DAILY, WEEKLY)]

    def _played(self, duty: Duty, work: Any) -> Duty:
        def does(context: MindContext, period: str) -> str:
            self.did.append(f"{duty.name} {period}")
            return "done well"

        return duty._replace(work=work or does)

    def maintenance(self, seconds: float = 10.0) -> Maintenance:
        return Maintenance(lambda doing, seconds: self.beats.append(doing), self.duties, seconds)


def never() -> bool:
    return False


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    """It has had its first event in the week before."""
    mind = OneMind(str(tmp_path), NOW - 8 * DAY)
    tell(mind.context(), DutyStep("exploration_reset", "2026-01-23", "done"))
    mind.now = NOW
    tell(mind.context(), DutyStep("exploration_reset", "2026-01-31", "done"))
    tell(mind.context(), DutyStep("daily_summary", "2026-01-29", "done"))
    return mind


def told(mind: OneMind, duty: Duty) -> DutyRecord:
    return record_of(history_of(mind.places.events), duty.name)


def test_what_is_due_is_done_once_and_pushed_as_one_commit(mind: OneMind) -> None:
    played = Played()
    maintenance = played.maintenance()
    assert maintenance.tend(mind.context(), False, never)
    assert maintenance.tend(mind.context(), True, never)
    assert played.did == ["daily_summary 2026-01-30", "weekly_review 2026-W04"]
    assert played.beats == [f"maintaining: {duty.name}" for duty in (DAILY, WEEKLY)] + ["committing the mind"]
    shutil.rmtree(mind.root)
    Git(mind.places.bot)("clone", "--quiet", "--branch", "mind", mind.places.remote, "mind")
    assert played.maintenance().tend(mind.context(), True, never)
    assert len(played.did) == 2, "a clone that was made again brings nothing again"


def test_what_comes_before_a_duty(mind: OneMind) -> None:
    """The end of the runner, work that arrives; and a mind there must be."""
    played, context = Played(), mind.context()
    maintenance = played.maintenance()
    assert not maintenance.tend(context, False, lambda: bool(played.did))
    context.interruption.ask()
    with pytest.raises(Interrupted):
        maintenance.tend(context, False, never)
    assert played.did == ["daily_summary 2026-01-30"]
    shutil.rmtree(f"{mind.root}/.git")
    assert maintenance.tend(mind.context(), True, never)
    assert len(played.did) == 1


@pytest.mark.heavy
def test_a_duty_that_fails_is_tried_at_ticks_three_times_and_told(mind: OneMind) -> None:
    tries = list[str]()

    def fails(context: MindContext, period: str) -> str:
        tries.append(period)
        raise OSError("no space  left")

    played = Played(daily_summary=fails)
    maintenance = played.maintenance()
    for ticked in (False, False, True, False, True, True, True):
        assert maintenance.tend(mind.context(), ticked, never)
    assert tries == ["2026-01-30"] * 3
    assert played.did == ["weekly_review 2026-W04"], "the others go on"
    failures = mind.read(FAILURES)
    assert failures.count("## Duty daily_summary 2026-01-30") == 1
    assert "It failed: no space left" in failures
    assert "not tried again" in failures
    assert told(mind, DAILY).why == "no space left"
    mind.now += DAY
    played.maintenance().tend(mind.context(), False, never)
    assert tries[3:] == ["2026-01-31"], "the next period is another matter"


@pytest.mark.fault("F88")
def test_duties_that_cannot_be_told_are_not_done(mind: OneMind) -> None:
    """Fault: the keep takes no events; expected: no duty, which may cost money, is begun, and all are afterwards."""

    def away(events: object) -> Any:
        raise OSError("the door is away")

    played = Played()
    for _ in range(4):
        assert played.maintenance().tend(mind.context()._replace(record=away), True, never)
    assert played.did == []
    assert mind.notes("mind.duties_wait") == [{"error": "the door is away"}] * 4
    assert played.maintenance().tend(mind.context(), False, never)
    assert len(played.did) == 2


@pytest.mark.heavy
def test_a_duty_that_ends_the_process_is_begun_three_times_and_one_that_hangs_is_ended(mind: OneMind) -> None:
    """A command of a skill's self-test may kill the runner, whose successor begins with what is due."""
    begun = list[str]()

    def kills(context: MindContext, period: str) -> str:
        begun.append(period)
        raise SystemExit

    played = Played(daily_summary=kills, weekly_review=lambda context, period: time.sleep(60))
    for _ in range(3):
        with pytest.raises(SystemExit):
            played.maintenance().tend(mind.context(), False, never)
    assert played.maintenance(0.05).tend(mind.context(), False, never)
    assert begun == ["2026-01-30"] * 3
    assert told(mind, DAILY).why == "it began, and its end was not told"
    assert told(mind, WEEKLY).why == "it had not ended after 0.05 s"


def test_what_steers_waits_while_the_agent_is_tainted(mind: OneMind) -> None:
    """The door takes no summary and no memory of it, so neither is made and told as done."""
    played = Played()
    mind.now += DAY
    assert played.maintenance().tend(mind.context()._replace(is_tainted=lambda: True), False, never)
    assert played.did == ["exploration_reset 2026-02-01"]
    assert played.maintenance().tend(mind.context(), False, never)
    assert played.did[1:] == ["daily_summary 2026-01-30", "daily_summary 2026-01-31", "weekly_review 2026-W04"]


def test_a_new_mind_owes_no_summary_of_the_day_before(tmp_path: Path) -> None:
    mind, beats = OneMind(str(tmp_path), NOW), list[str]()
    assert Maintenance(lambda doing, seconds: beats.append(doing)).tend(mind.context(), False, never)
    done = {told.fact.name: told.fact for told in history_of(mind.places.events).entries(DutyStep)}
    assert done.keys() == {"exploration_reset", "health_check", "recheck", "skill_review"}
    words = "no exploration (exploration.usd is not set)"
    assert done["exploration_reset"] == DutyStep("exploration_reset", "2026-01-31", "done", words)
