"""The standing duties: which are due, and what a runner that has nothing else to do does of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from infra.cell.cell import Cell
from infra.cell.interruption import Interrupted
from infra.cell.mind.duties import DUTIES, Duty, period_due, tend, why_failed
from infra.cell.mind.history import DutyStep, History, history_of
from infra.cell.mind.record import tell
from infra.shared.clock import moment, timestamp
from infra.shared.mind.event import EventLine, name_of
from infra.shared.mind.layout import FAILURES
from infra.shared.repository.git import Git
from tests.cell.life.test_heart import Recording
from tests.cell.mind.one_mind import OneMind
from tests.shared.mind.events import act
from tests.shared.rows import each_row

NOW = moment("2026-01-31T10:00:00")  # a Saturday, in the week 2026-W05
DAY = 86_400.0
DAILY, WEEKLY = DUTIES[2], DUTIES[-1]


def history(*steps: tuple[str, str, float]) -> History:
    """Of the daily summary and the weekly review alike: period, state, and when it was told; born long ago."""
    found = History()
    for seq, (period, state, at) in enumerate((("1999-12-31", "done", 946_684_800.0), *steps), 1):
        for name in (DAILY.name, WEEKLY.name):
            details = {"entry": "dutystep", "name": name, "period": period, "state": state, "words": "no space left"}
            event = structs.replace(act("task_update", details=details), timestamp=timestamp(at))
            found.add(EventLine(name_of(timestamp(at)), seq, event))
    found.first_day = "2000-01-01.jsonl"
    return found


def test_the_first_time_each_duty_is_due_for_one_period() -> None:
    assert [f"{duty.name} {period_due(duty, history(), NOW)}" for duty in DUTIES] == [
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
    "duty, steps, period",
    [
        (DAILY, [("2026-01-20", "done", NOW - 10 * DAY)], "2026-01-30"),  # days that were missed stay so
        (DAILY, [("9999-12-31", "done", NOW - DAY)], "2026-01-30"),  # told by a clock that was wrong
        (DAILY, [("2026-01-30", "done", NOW + 400 * DAY)], ""),
        (DAILY, [("2026-01-30", "done", NOW), ("2026-01-31", "done", NOW + DAY)], ""),  # it was set back
        (DAILY, [("2026-01-30", "failed", NOW - 3599)], ""),
        (DAILY, [("2026-01-30", "failed", NOW - 3600)], "2026-01-30"),
        (DAILY, [("2026-01-29", "failed", NOW - 60)], "2026-01-30"),
        (WEEKLY, [("2026-W04", "done", NOW)], ""),
        (WEEKLY, [("2026-W03", "done", NOW)], "2026-W04"),
    ],
)
def test_what_is_due(duty: Duty, steps: list[tuple[str, str, float]], period: str) -> None:
    assert period_due(duty, history(*steps), NOW) == period


def never() -> bool:
    return False


class Played:
    """Duties that only tell that they were done; `works`, by name, in the place of that."""

    def __init__(self, **works: Any) -> None:
        self.did = list[str]()
        self.duties = [self._played(duty, works.get(duty.name)) for duty in (DUTIES[0], DAILY, WEEKLY)]

    def _played(self, duty: Duty, work: Any) -> Duty:
        def does(context: Cell, period: str) -> str:
            self.did.append(f"{duty.name} {period}")
            return "done well"

        return duty._replace(work=work or does)

    def tend(self, cell: Cell, has_work: Callable[[], bool] = never, seconds: float = 10) -> bool:
        return tend(cell, has_work, self.duties, seconds)


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    """It has had its first event in the week before."""
    mind = OneMind(str(tmp_path), NOW - 8 * DAY)
    tell(mind.cell(), DutyStep("exploration_reset", "2026-01-23", "done"))
    mind.now = NOW
    tell(mind.cell(), DutyStep("exploration_reset", "2026-01-31", "done"))
    tell(mind.cell(), DutyStep("daily_summary", "2026-01-29", "done"))
    return mind


def test_what_is_due_is_done_once_and_pushed_as_one_commit(mind: OneMind) -> None:
    played, mind.heartbeat = Played(), (beats := Recording())
    assert played.tend(mind.cell())
    assert played.tend(mind.cell())
    assert played.did == ["daily_summary 2026-01-30", "weekly_review 2026-W04"]
    assert beats.words() == [f"maintaining: {duty.name}" for duty in (DAILY, WEEKLY)] + ["committing the mind"]
    shutil.rmtree(mind.root)
    Git(mind.places.bot)("clone", "--quiet", "--branch", "mind", mind.places.remote, "mind")
    assert played.tend(mind.cell())
    assert len(played.did) == 2, "a clone that was made again brings nothing again"


def test_what_comes_before_a_duty(mind: OneMind) -> None:
    """The end of the runner, work that arrives; and a mind there must be."""
    played, cell = Played(), mind.cell()
    assert not played.tend(cell, has_work=lambda: bool(played.did))
    cell.interruption.ask()
    with pytest.raises(Interrupted):
        played.tend(cell)
    assert played.did == ["daily_summary 2026-01-30"]
    shutil.rmtree(f"{mind.root}/.git")
    assert played.tend(mind.cell())
    assert len(played.did) == 1


def test_a_duty_that_fails_or_hangs_is_told_and_due_again_after_an_hour(mind: OneMind) -> None:
    def fails(context: Cell, period: str) -> str:
        tries.append(period)
        raise OSError("no space  left")

    tries, hangs = list[str](), lambda context, period: time.sleep(60)
    failing = Played(daily_summary=fails, weekly_review=hangs)
    for hours in (0, 0, 1):
        mind.now += hours * 3600
        assert failing.tend(mind.cell(), seconds=0.05)
    assert tries == ["2026-01-30"] * 2
    failures = mind.read(FAILURES)
    assert failures.count("## Duty daily_summary 2026-01-30") == 1
    assert "It failed: no space left" in failures
    found = history_of(mind.places.events)
    assert why_failed(found, DAILY.name) == "no space left"
    assert why_failed(found, WEEKLY.name) == "it had not ended after 0.05 s"
    mind.now += DAY
    played = Played()
    played.tend(mind.cell())
    assert played.did[1:] == ["daily_summary 2026-01-31", "weekly_review 2026-W04"], "of the days the newest alone"
    assert why_failed(history_of(mind.places.events), DAILY.name) == ""


@pytest.mark.fault("F88")
def test_duties_that_cannot_be_told_are_not_done(mind: OneMind) -> None:
    """Fault: the keep takes no events; expected: no duty, which may cost money, is begun, and all are afterwards."""

    played, mind.is_away = Played(), True
    for _ in range(4):
        assert played.tend(mind.cell())
    assert played.did == []
    assert mind.notes("mind.duties_wait") == [{"error": "the door is away"}] * 4
    mind.is_away = False
    assert played.tend(mind.cell())
    assert len(played.did) == 2


def test_what_steers_waits_while_the_agent_is_tainted(mind: OneMind) -> None:
    """The door takes no summary and no memory of it, so neither is made and told as done."""
    played, mind.is_tainted = Played(), True
    mind.now += DAY
    assert played.tend(mind.cell())
    mind.is_tainted = False
    assert played.did == ["exploration_reset 2026-02-01"]
    assert played.tend(mind.cell())
    assert played.did[1:] == ["daily_summary 2026-01-31", "weekly_review 2026-W04"]


def test_a_new_mind_owes_no_summary_of_the_day_before(tmp_path: Path) -> None:
    mind = OneMind(str(tmp_path), NOW)
    assert tend(mind.cell(), never)
    done = {told.fact.name: told.fact for told in history_of(mind.places.events).entries(DutyStep)}
    assert done.keys() == {"exploration_reset", "health_check", "recheck", "skill_review"}
    assert done["exploration_reset"] == DutyStep("exploration_reset", "2026-01-31", "done", "0 USD")
