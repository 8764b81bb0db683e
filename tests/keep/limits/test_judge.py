"""The judge over whole series of looks: who is ended, and who is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from infra.keep.limits.judge import Memory, judge, next_due
from infra.keep.limits.values import TICKS, Bounds, Finding, Process, Progress, Remedy, Rule
from infra.keep.limits.windows import BUSY_WINDOWS, cpu_seconds
from tests.keep.limits.looks import BEGINNING, RUNNER, Series, log, remedies

WINDOW = 1800.0


def test_a_runaway_is_told_after_one_window_and_ended_after_two() -> None:
    """All processors, no model call, no push, for twice the window."""
    series = Series()
    assert series.looks(WINDOW - 30, cores=2) == []
    told = series.look(cores=2)
    assert [(each.rule, each.remedy, each.observations) for each in told] == [(Rule.CPU, Remedy.TELL, 1)]
    assert series.looks(WINDOW - 30, cores=2) == []
    (end,) = series.look(cores=2)
    assert (end.rule, end.remedy, end.observations, end.seconds) == (Rule.CPU, Remedy.END, 2, 2 * WINDOW)
    assert end.runner == RUNNER
    assert "2.00 of 2 processors, for 3600 s" in end.text
    assert "python (pid 4242)" in end.text


def test_a_fork_bomb_is_a_runaway() -> None:
    """Thousands of processes, at each look others, each of which has used next to nothing."""
    series, found = Series(), []
    for number in range(121):
        born = int((series.last.boottime + 1) * TICKS)
        bomb = tuple(Process(number * 2000 + each, born, "bomb", 0.03, 0.0) for each in range(2000))
        found += series.look(processes=(series.last.processes[0], *bomb))
    assert remedies(found, Rule.CPU) == [Remedy.TELL, Remedy.END]
    assert "of 2001 processes" in found[-1].text


def test_a_runaway_that_goes_on_is_named_again() -> None:
    """A finding that was lost is repeated after each further window."""
    series = Series()
    found = series.looks(5 * WINDOW, cores=2)
    assert remedies(found, Rule.CPU) == [Remedy.TELL, *[Remedy.END] * 4]


def test_a_long_build_is_no_runaway() -> None:
    """15 minutes on all processors, also many times over with model calls between; nor 45 minutes and then rest."""
    series = Series()
    found = []
    for _ in range(4):
        found += series.looks(900, cores=2)
        found += series.look(cores=0.1, calls=1)
    found += series.looks(2700, cores=2)
    found += series.looks(3600, cores=0)
    assert Remedy.END not in remedies(found, Rule.CPU)


def test_no_command_within_its_own_limit_is_a_runaway() -> None:
    """A PM who lets commands run for hours lets them take the processors for hours."""
    limits = Bounds(bash_seconds=7200)
    assert cpu_seconds(limits) == 7200
    assert remedies(Series(limits).looks(7170, cores=2), Rule.CPU) == []
    assert remedies(Series(limits).looks(14_400, cores=2), Rule.CPU) == [Remedy.TELL, Remedy.END]


@pytest.mark.parametrize("progress", [{"calls": 1}, {"moves": 1}])
def test_progress_once_a_window_is_enough(progress: dict[str, int]) -> None:
    """A model call that ended, or a push: then it only is a busy agent, and the PM is told so after hours, once."""
    series = Series()
    found = []
    for _ in range(BUSY_WINDOWS + 2):
        found += series.looks(WINDOW - 30, cores=2)
        found += series.look(30, 2, **progress)
    (told,) = found
    assert (told.remedy, told.observations) == (Remedy.TELL, BUSY_WINDOWS)
    assert "It makes progress" in told.text


def test_on_a_busy_host_the_part_that_the_agent_gets_is_judged() -> None:
    """A tenth of the processors is no runaway, whatever everybody else takes."""
    assert Series().looks(24 * 3600, cores=0.2) == []


def test_a_smaller_share_can_be_made_the_limit() -> None:
    """`cpu_fraction` says what all is."""
    half = Bounds(cpu_fraction=0.5)
    assert Remedy.END in remedies(Series(half).looks(2 * WINDOW, cores=1), Rule.CPU)
    assert remedies(Series().looks(2 * WINDOW, cores=1.8), Rule.CPU) == []


def _sleeps(series: Series) -> None:
    series.look(asleep=8 * 3600.0)


def _is_stopped(series: Series) -> None:
    series.look(3600, cores=2)


def _meets_a_slow_disk(series: Series) -> None:
    series.look(cores=2, took=31.0)


def _sees_the_boot_clock_go_back(series: Series) -> None:
    series.look(cores=2, boottime=series.last.boottime - 100)


def _sees_both_clocks_go_back(series: Series) -> None:
    series.look(cores=2, boottime=10.0, monotonic=10.0)


def _boots_anew(series: Series) -> None:
    series.look(cores=2, runner=structs.replace(RUNNER, boot_id="d" * 32))


def _loses_its_runner(series: Series) -> None:
    series.look(cores=2, runner=None)
    series.look(cores=2, runner=RUNNER)


def _cannot_see_progress(series: Series) -> None:
    series.look(cores=2, progress=None)
    series.look(cores=2, progress=Progress())


@pytest.mark.parametrize(
    "happens",
    [
        _sleeps,
        _is_stopped,
        _meets_a_slow_disk,
        _sees_the_boot_clock_go_back,
        _sees_both_clocks_go_back,
        _boots_anew,
        _loses_its_runner,
        _cannot_see_progress,
    ],
)
def test_what_tears_the_series_begins_it_anew(happens: Callable[[Series], None]) -> None:
    """Just before the second window ends: then nobody is ended, until two whole windows have passed again."""
    series = Series()
    assert remedies(series.looks(2 * WINDOW - 30, cores=2), Rule.CPU) == [Remedy.TELL]
    happens(series)
    assert series.found == []
    assert remedies(series.looks(2 * WINDOW - 60, cores=2), Rule.CPU) == [Remedy.TELL]
    # The positive control: it is still a runaway.
    assert Remedy.END in remedies(series.looks(120, cores=2), Rule.CPU)


def test_a_clock_that_is_set_is_not_even_seen() -> None:
    """There is no wall time in a look."""
    assert not {"wall", "time", "at"} & {field.name for field in dataclasses.fields(BEGINNING)}


def test_looks_that_are_too_near_each_other_are_one() -> None:
    """Two observations are so far apart as the settings say, however often somebody looks."""
    series = Series()
    before = series.memory
    assert series.look(29.9, logs=(log(1 << 40),)) == []
    assert series.memory is before
    assert next_due(before, series.limits) == BEGINNING.monotonic + 30
    assert series.look(30.0, logs=(log(1 << 40),)) != []
    assert next_due(Memory(), series.limits) == 0


HOURLY = [("tokens", Rule.TOKENS, 5_000_000), ("calls", Rule.STEPS, 3000)]


@pytest.mark.parametrize(("what", "rule", "most"), HOURLY)
def test_too_much_within_an_hour_without_a_push_ends_it_the_second_time(what: str, rule: Rule, most: int) -> None:
    """Over the limit: told; the same again: ended. It need not last the hour; tokens and steps are counted apart."""
    series = Series()
    assert series.look(**{what: most}) == []
    (told,) = series.look(**{what: 1})
    assert (told.rule, told.remedy, told.measured) == (rule, Remedy.TELL, most + 1)
    assert f"at most {most} {rule.value} an hour" in told.text
    (end,) = series.look(**{what: most + 1})
    assert (end.rule, end.remedy, end.observations, end.runner) == (rule, Remedy.END, 2, RUNNER)


@pytest.mark.parametrize(("what", "rule", "most"), HOURLY)
@pytest.mark.parametrize("between", [{"moves": 1}, {"asleep": 60.0}])
def test_what_is_counted_by_the_hour_begins_anew(what: str, rule: Rule, most: int, between: dict[str, float]) -> None:
    """After a push, and after a gap."""
    series = Series()
    over = {what: most + 1}
    assert remedies(series.look(**over), rule) == [Remedy.TELL]
    assert series.look(**between) == []  # type: ignore[arg-type]
    assert remedies(series.look(**over), rule) == [Remedy.TELL]
    assert remedies(series.look(**over), rule) == [Remedy.END]


def test_a_slow_spender_is_never_ended() -> None:
    """Less than the limit an hour, for a day, without any push."""
    series = Series()
    found = [finding for _ in range(24 * 120) for finding in series.look(tokens=5_000_000 // 121, calls=3000 // 121)]
    assert found == []


_events = st.one_of(
    st.tuples(st.just("look"), st.floats(0, 200), st.floats(0, 2), st.integers(0, 1)),
    st.tuples(st.just("sleep"), st.floats(0, 200), st.floats(0, 2), st.integers(0, 1)),
    st.tuples(st.just("slow"), st.floats(0, 200), st.floats(0, 2), st.integers(0, 1)),
    st.tuples(st.just("boot"), st.floats(0, 200), st.floats(0, 2), st.integers(0, 1)),
)


@given(st.lists(_events, max_size=80), st.lists(st.integers(0, 1 << 30), min_size=80, max_size=80))
def test_an_end_always_rests_on_two_looks_that_belong_together(
    events: list[tuple[str, float, float, int]], sizes: list[int]
) -> None:
    """Whatever happens in whatever order: whoever is to be ended is the runner of this look and of the one before, no
    gap lies between, and each count that led to it is at least two."""
    limits = Bounds(cpu_seconds=90, bash_seconds=90, validation_seconds=90)
    series = Series(limits)
    boots = 0
    for (what, seconds, cores, calls), size in zip(events, sizes, strict=False):
        before = series.last
        changed: dict[str, object] = {"logs": (log(size),), "runner": before.runner}
        if what == "boot":
            boots += 1
            changed["runner"] = structs.replace(RUNNER, boot_id=f"{boots:032x}")
        if what == "slow":
            changed["took"] = 60.0
        asleep = 3600.0 if what == "sleep" else 0.0
        found = series.look(seconds, cores, asleep=asleep, calls=calls, tokens=size, **changed)  # type: ignore[arg-type]
        for finding in _ends(found):
            assert what == "look"
            assert 30 <= seconds <= 120
            assert finding.observations >= 2
            assert finding.runner == before.runner == series.last.runner
            assert before.took <= 30


def _ends(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.remedy is Remedy.END]


@given(st.lists(st.floats(0, 1.85), min_size=1, max_size=240))
def test_who_leaves_a_part_of_the_processors_free_is_never_ended(cores: list[float]) -> None:
    """Below the fraction at every look, below it in every window."""
    series = Series()
    assert [finding for share in cores for finding in series.look(cores=share)] == []


@given(st.floats(0.01, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_any_first_look_ends_nobody(monotonic: float, boottime: float, took: float) -> None:
    """Whatever it shows."""
    sample = dataclasses.replace(
        BEGINNING, monotonic=monotonic, boottime=boottime, took=took, logs=(log(1 << 50),), volumes=()
    )
    _, found = judge(Memory(), sample, Bounds())
    assert _ends(found) == []
