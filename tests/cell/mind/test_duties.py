from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.duties import (
    DAILY_SUMMARY,
    DUTIES,
    EXPLORATION_RESET,
    MOST_TRIES,
    WEEKLY_REVIEW,
    Duty,
    DutyState,
    Period,
    UnreadableState,
    due,
    next_due,
    shown_by_files,
    state_of,
    to_json,
)
from infra.shared.clock import moment
from tests.shared.rows import each_row

DAY = 86_400.0
NOW = moment("2026-01-31T10:00:00")  # a Saturday, in the week 2026-W05
CLOCKS = st.lists(st.floats(0, 400 * DAY).map(lambda more: NOW + more), min_size=1, max_size=12)


def names(done: Mapping[str, Collection[str]], now: float) -> list[str]:
    return [f"{each.duty.name} {each.period}" for each in due(done, now)]


def test_the_first_time_each_duty_is_due_for_one_period() -> None:
    assert names({}, NOW) == [
        "exploration_reset 2026-01-31",
        "health_check 2026-01-31",
        "daily_summary 2026-01-30",
        "skill_review 2026-01-31",
        "context_profile 2026-W04",
        "deprecation_scan 2026-W04",
        "weekly_review 2026-W04",
    ]


def test_after_a_down_time_seven_days_and_one_week_are_caught_up() -> None:
    done = {duty.name: (duty.period.of(datetime.date(2025, 11, 1)),) for duty in DUTIES}
    found = names(done, NOW)
    assert [name for name in found if DAILY_SUMMARY in name] == [
        f"daily_summary 2026-01-{day}" for day in range(24, 31)
    ]
    assert [name for name in found if WEEKLY_REVIEW in name] == ["weekly_review 2026-W04"]


def test_a_state_from_the_future_holds_up_nothing() -> None:
    assert "daily_summary 2026-01-30" in names({DAILY_SUMMARY: ("9999-12-31",)}, NOW)
    assert "daily_summary 2026-01-30" in names({DAILY_SUMMARY: ("tomorrow", "zzz")}, NOW)


@given(CLOCKS)
def test_nothing_is_done_twice_whatever_the_clock_does(clocks: list[float]) -> None:
    state, seen = DutyState(), set[tuple[str, str]]()
    for now in clocks:
        for each in due(state.done, now):
            assert (each.duty.name, each.period) not in seen
            seen.add((each.duty.name, each.period))
            state = state.with_done(each, now, "")
        assert due(state.done, now) == ()


@given(CLOCKS.map(sorted))
def test_of_a_clock_that_only_goes_forward_no_recent_period_is_left_out(clocks: list[float]) -> None:
    state = DutyState()
    for now in clocks:
        for each in due(state.done, now):
            state = state.with_done(each, now, "")
    last = datetime.datetime.fromtimestamp(clocks[-1], datetime.UTC).date()
    first = datetime.datetime.fromtimestamp(clocks[0], datetime.UTC).date()
    days = [last - datetime.timedelta(days=back) for back in range(1, 8)]
    expected = {day.isoformat() for day in days if day >= first - datetime.timedelta(days=1)}
    assert expected <= set(state.done[DAILY_SUMMARY])
    assert state.done[EXPLORATION_RESET][-1] == last.isoformat()


@given(st.floats(allow_nan=False) | st.just(float("inf")))
def test_any_clock_gives_an_answer(now: float) -> None:
    assert len(due({}, now)) == len(DUTIES)
    assert all(next_due(duty, now) for duty in DUTIES)


def test_next_is_the_end_of_the_period() -> None:
    assert next_due(Duty("x", Period.DAY, ""), NOW) == "2026-02-01T00:00Z"
    assert next_due(Duty("x", Period.WEEK, ""), NOW) == "2026-02-02T00:00Z"


def test_a_duty_that_fails_is_given_up_for_its_period_after_so_many_tries() -> None:
    state = DutyState()
    (_, _, daily, *_) = due({}, NOW)
    for _ in range(MOST_TRIES):
        assert daily in due(state.done, NOW)
        assert not state.has_given_up(daily)
        state = state.with_try(daily, NOW).with_failure(daily, NOW, "no  space\nleft")
    assert state.has_given_up(daily)
    assert daily not in due(state.done, NOW)
    assert state.record(DAILY_SUMMARY).why == "no space left"
    (_, _, tomorrow, *_) = due(state.done, NOW + DAY)
    assert tomorrow.period == "2026-01-31"
    assert state.with_done(tomorrow, NOW + DAY, "3 events").record(DAILY_SUMMARY).why == ""


def test_the_state_reads_back() -> None:
    state = DutyState()
    for each in due({}, NOW):
        state = state.with_done(each, NOW, "done").with_try(each._replace(period="x"), NOW)
    assert state_of(to_json(state)) == state


@each_row("content", [b"", b"{", b"\x00" * 9, b"[]", b"<<<<<<< ours\n", b'{"version": 2}', b"[" * 9999])
def test_a_broken_state_is_said(content: bytes) -> None:
    with pytest.raises(UnreadableState, match=r"logs/health/duties\.json"):
        state_of(content)


def test_a_lost_state_is_told_from_the_summaries() -> None:
    done = shown_by_files(["2026-01-30.md", "notes.md", "2026-01-29.md"], ["2026-W04.md", "x"])
    assert names(done, NOW) == [f"{name} 2026-01-31" for name in ("exploration_reset", "health_check", "skill_review")]


@each_row(
    "born, found",
    [
        ("2026-01-31", []),
        ("2026-01-30", ["daily_summary 2026-01-30"]),
        ("2026-01-25", ["daily_summary 2026-01-30", "weekly_review 2026-W04"]),
        ("2026-02-01", ["daily_summary 2026-01-30", "weekly_review 2026-W04"]),
    ],
)
def test_nothing_is_due_for_time_before_birth(born: str, found: list[str]) -> None:
    """But for a birth that is yet to come, by a clock that was wrong."""
    summaries = [duty for duty in DUTIES if duty.name in (DAILY_SUMMARY, WEEKLY_REVIEW)]
    at = moment(f"{born}T05:00:00")
    assert [f"{each.duty.name} {each.period}" for each in due({}, NOW, summaries, at)] == found
