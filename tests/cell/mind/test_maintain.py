"""The standing duties, done by a runner that has nothing else to do."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from infra.cell.loop.interruption import Interrupted
from infra.cell.mind.duties import DAILY_SUMMARY, EXPLORATION_RESET, STATE, WEEKLY_REVIEW, DueDuty, state_of
from infra.cell.mind.maintain import Maintenance
from infra.cell.mind.mind import MindContext
from infra.shared.clock import moment
from infra.shared.mind.layout import FAILURES
from infra.shared.repository.git import Git
from tests.cell.mind.one_mind import OneMind

NOW = moment("2026-01-31T10:00:00")
DAY = 86_400.0


class Played:
    """Duties that only tell that they were done."""

    def __init__(self, *names: str) -> None:
        self.did: list[str] = []
        self.works = {name: self.work for name in names or (DAILY_SUMMARY, WEEKLY_REVIEW)}
        self.beats: list[str] = []

    def work(self, context: MindContext, due: DueDuty) -> str:
        self.did.append(f"{due.duty.name} {due.period}")
        return "done well"

    def maintenance(self, seconds: float = 10.0) -> Maintenance:
        return Maintenance(lambda doing, seconds: self.beats.append(doing), self.works, seconds)


def never() -> bool:
    return False


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    return OneMind(str(tmp_path), NOW)


def test_what_is_due_is_done_once_and_pushed_as_one_commit(mind: OneMind) -> None:
    played = Played()
    maintenance = played.maintenance()

    assert maintenance.tend(mind.context(), False, never)
    assert maintenance.tend(mind.context(), True, never)

    assert played.did == ["daily_summary 2026-01-30", "weekly_review 2026-W04"]
    assert len(played.beats) == 3
    assert mind.bare("log", "--format=%s", "mind").splitlines() == [
        "maintenance: daily_summary 2026-01-30, weekly_review 2026-W04",
        "birth",
    ]
    shutil.rmtree(mind.root)
    Git(mind.places.bot)("clone", "--quiet", "--branch", "mind", mind.places.remote, "mind")
    assert played.maintenance().tend(mind.context(), True, never)
    assert len(played.did) == 2, "a clone that was made again brings nothing again"


def test_without_a_mind_nothing_happens(mind: OneMind) -> None:
    played = Played()
    shutil.rmtree(f"{mind.root}/.git")
    assert played.maintenance().tend(mind.context(), True, never)
    assert (played.did, mind.log) == ([], [])


def test_work_that_arrives_comes_before_the_next_duty(mind: OneMind) -> None:
    played = Played()
    maintenance = played.maintenance()
    assert not maintenance.tend(mind.context(), False, lambda: bool(played.did))
    assert played.did == ["daily_summary 2026-01-30"]
    assert "daily_summary" in mind.bare("log", "-1", "--format=%s", "mind"), "what was done is kept"
    assert maintenance.tend(mind.context(), False, never)
    assert len(played.did) == 2


def test_a_duty_that_fails_is_tried_at_ticks_three_times_and_told(mind: OneMind) -> None:
    played, tries = Played(WEEKLY_REVIEW), list[str]()

    def fails(context: MindContext, due: DueDuty) -> str:
        tries.append(due.period)
        raise OSError("no space left")

    played.works[DAILY_SUMMARY] = fails
    maintenance = played.maintenance()
    for ticked in (False, False, True, False, True, True, True):
        assert maintenance.tend(mind.context(), ticked, never)

    assert tries == ["2026-01-30"] * 3
    assert played.did == ["weekly_review 2026-W04"], "the others go on"
    told = mind.read(FAILURES)
    assert told.count("## Duty daily_summary 2026-01-30") == 1
    assert "try 3 of 3: no space left" in told
    assert "not tried again" in told
    mind.now += DAY
    played.maintenance().tend(mind.context(), False, never)
    assert tries[3:] == ["2026-01-31"], "the next period is another matter"


def test_a_duty_that_hangs_is_ended(mind: OneMind) -> None:
    played = Played(WEEKLY_REVIEW)

    def hangs(context: MindContext, due: DueDuty) -> str:
        time.sleep(60)
        return ""

    played.works[DAILY_SUMMARY] = hangs
    assert played.maintenance(0.05).tend(mind.context(), False, never)
    assert "it had not ended after 0.05 s" in mind.read(FAILURES)
    assert played.did == ["weekly_review 2026-W04"]


def test_a_runner_that_is_asked_to_end_begins_no_duty(mind: OneMind) -> None:
    played, context = Played(), mind.context()
    context.interruption.ask()
    with pytest.raises(Interrupted):
        played.maintenance().tend(context, False, never)
    assert played.did == []


def test_a_broken_state_is_said_and_the_summaries_tell_what_was_done(mind: OneMind) -> None:
    mind.write(STATE, "<<<<<<< HEAD\n{")
    mind.write("logs/daily/2026-01-30.md", "# 2026-01-30\n")
    played = Played()
    assert played.maintenance().tend(mind.context(), False, never)
    assert played.did == ["weekly_review 2026-W04"]
    assert STATE in str(mind.notes("mind.duties_unreadable"))
    assert state_of(mind.read(STATE).encode()).record(DAILY_SUMMARY).done == ("2026-01-30",)


def test_a_state_of_a_later_version_or_that_is_no_file_is_left_alone(mind: OneMind) -> None:
    played = Played()
    for content in (b'{"version": 2}', b" " * (1 << 17)):
        mind.write(STATE, content)
        assert played.maintenance().tend(mind.context(), False, never)
    assert played.did == []
    assert len(mind.notes("mind.duties_unreadable")) == 2


def test_a_place_that_takes_no_note_ends_the_duties(mind: OneMind) -> None:
    """What cannot be noted would be done again and again, and may cost money each time."""
    mind.write("logs/health", "not a directory")
    played = Played()
    for _ in range(2):
        assert played.maintenance().tend(mind.context(), False, never)
    assert played.did == []
    assert mind.notes("mind.duties_unreadable")


def test_a_duty_that_ends_the_process_is_begun_three_times(mind: OneMind) -> None:
    """A command of a skill's self-test may kill the runner, whose successor begins with what is due."""
    played, begun = Played(WEEKLY_REVIEW), list[str]()

    def kills(context: MindContext, due: DueDuty) -> str:
        begun.append(due.period)
        raise SystemExit

    played.works[DAILY_SUMMARY] = kills
    for _ in range(3):
        with pytest.raises(SystemExit):
            played.maintenance().tend(mind.context(), False, never)
    assert played.maintenance().tend(mind.context(), False, never)
    assert begun == ["2026-01-30"] * 3
    assert played.did == ["weekly_review 2026-W04"]
    record = state_of(mind.read(STATE).encode()).record(DAILY_SUMMARY)
    assert (record.given_up, record.why) == (("2026-01-30",), "it began, and its end was not noted")


def test_the_real_duties_say_what_they_did(mind: OneMind) -> None:
    beats: list[str] = []
    maintenance = Maintenance(lambda doing, seconds: beats.append(doing))
    assert maintenance.tend(mind.context(), False, never)
    record = state_of(mind.read(STATE).encode()).record(EXPLORATION_RESET)
    assert record.words == "no exploration (exploration.usd is not set)"


def test_what_steers_waits_while_the_agent_is_tainted(mind: OneMind) -> None:
    """The door takes no summary and no memory of it, so neither is made and told as done."""
    played = Played(DAILY_SUMMARY, EXPLORATION_RESET)
    maintenance = played.maintenance()
    assert maintenance.tend(mind.context()._replace(is_tainted=lambda: True), False, never)
    assert played.did == ["exploration_reset 2026-01-31"]
    assert maintenance.tend(mind.context(), False, never)
    assert played.did == ["exploration_reset 2026-01-31", "daily_summary 2026-01-30"]


def test_a_new_mind_owes_no_summary_of_the_day_before(mind: OneMind) -> None:
    """By the date of its first commit."""
    mind.now = float(mind.git("log", "-1", "--format=%ct", "--reverse"))
    played = Played(DAILY_SUMMARY, WEEKLY_REVIEW, EXPLORATION_RESET)
    assert played.maintenance().tend(mind.context(), False, never)
    assert [each.partition(" ")[0] for each in played.did] == [EXPLORATION_RESET]
