"""The rules on logs and disks, and how processor time is added up."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.limits.values import TICKS, Log, Process, Remedy, Rule, Sample
from infra.keep.limits.windows import used
from tests.keep.limits.looks import BEGINNING, GIB, ROOMY, Series, log, remedies, volume, weight

MIB = 1 << 20


def test_a_log_that_explodes_is_cut_and_then_its_writer_ended() -> None:
    """By rate: the second look in a row that finds it."""
    series = Series()
    assert series.look(logs=(log(10 * MIB),)) == []  # 20 MiB a minute are allowed
    (cut,) = series.look(logs=(log(21 * MIB),))
    assert (cut.remedy, cut.path, cut.observations) == (Remedy.TRIM_LOG, "main/minifram/logs/errors.log", 1)
    (end,) = series.look(logs=(log(11 * MIB), log(MIB, "errors.log.1", 8)))  # it was cut, and grew by 11 since
    assert (end.rule, end.remedy, end.observations, end.measured) == (Rule.LOGS, Remedy.END, 2, 11 * MIB)


def test_a_log_that_is_quiet_after_it_was_cut_is_forgiven() -> None:
    """A burst is no explosion."""
    series = Series()
    assert remedies(series.look(logs=(log(50 * MIB),)), Rule.LOGS) == [Remedy.TRIM_LOG]
    assert series.look(logs=(log(MIB), log(MIB, "errors.log.1", 8))) == []
    assert remedies(series.look(logs=(log(50 * MIB),)), Rule.LOGS) == [Remedy.TRIM_LOG]


def test_a_large_log_is_cut_however_slowly_it_grew() -> None:
    """And nobody is ended for it, also when it cannot be cut; after a gap, too."""
    series = Series(first=dataclasses.replace(BEGINNING, logs=(log(60 * MIB),)))
    assert series.found == []
    for number in range(5):
        (cut,) = series.look(logs=(log(61 * MIB + number),), asleep=3600.0 * (number % 2))
        assert (cut.remedy, cut.limit) == (Remedy.TRIM_LOG, 60 * MIB)


def test_a_record_is_never_cut() -> None:
    """What a run is resumed from counts with the rest; the other log that grew is cut, and the runner ended only when
    that did not help."""
    series = Series()
    record = log(50 * MIB, "transcripts/run.jsonl", 8)._replace(is_record=True)
    (cut,) = series.look(logs=(record, log(MIB)))
    assert (cut.remedy, cut.path) == (Remedy.TRIM_LOG, "main/minifram/logs/errors.log")
    series = Series()
    (told,) = series.look(logs=(record._replace(size=100 * MIB),))
    assert (told.remedy, told.path) == (Remedy.TELL, "main/minifram/logs/transcripts/run.jsonl")
    (end,) = series.look(logs=(record._replace(size=150 * MIB),))
    assert end.remedy is Remedy.END
    assert series.look(logs=(record._replace(size=150 * MIB),)) == [], "its size alone ends nobody"


def test_outputs_that_replace_others_are_no_growth() -> None:
    """Images that the agent looks at, many and large, are kept in a bounded store; one without a bound grows."""

    def outputs(look: int, count: int) -> tuple[Log, ...]:
        names = (f"outputs/{look}-{number}.png" for number in range(count))
        kept = (log(4 * MIB, name, 1000 * look + place) for place, name in enumerate(names))
        return (log(MIB), *(each._replace(is_record=True) for each in kept))

    series = Series()
    for look in range(4):
        assert series.look(logs=outputs(look, 5)) == []
    (cut,) = series.look(logs=outputs(9, 9))
    assert (cut.remedy, cut.path, cut.measured) == (Remedy.TRIM_LOG, "main/minifram/logs/errors.log", 16 * MIB)
    (end,) = series.look(logs=outputs(10, 13))
    assert (end.remedy, end.path) == (Remedy.END, "main/minifram/logs/outputs")


def test_the_oldest_of_too_large_logs_is_cut_first() -> None:
    """When there are several."""
    series = Series(first=dataclasses.replace(BEGINNING, logs=()))
    series.look(logs=())
    large = [log(61 * MIB, f"{age}.log", age)._replace(changed=100.0 - age) for age in (1, 3, 2)]
    found = series.look(logs=tuple(large), asleep=3600.0)
    assert [finding.path.rpartition("/")[2] for finding in found] == ["3.log", "2.log", "1.log"]


def test_many_logs_count_together_and_a_renamed_one_is_the_same() -> None:
    """Neither spreading nor rotating hides it; rotating alone is no growth."""
    series = Series(first=dataclasses.replace(BEGINNING, logs=(log(15 * MIB),)))
    assert series.look(logs=(log(0, inode=9), log(15 * MIB, "errors.log.1"))) == []
    many = tuple(log(3 * MIB, f"{number}.log", 100 + number) for number in range(4))
    (cut,) = series.look(logs=many)
    assert cut.measured == 12 * MIB


def test_short_room_is_made_then_told_once() -> None:
    """Somebody else's full disk ends nobody, however long it stays full."""
    series = Series()
    found = [finding for _ in range(20) for finding in series.look(volumes=(volume(MIB),), weight=weight(GIB))]
    assert remedies(found, Rule.DISK) == [Remedy.TIDY, Remedy.TELL]
    assert series.look(volumes=(ROOMY,)) == []
    assert remedies(series.look(volumes=(volume(MIB),)), Rule.DISK) == [Remedy.TIDY]


def test_who_goes_on_filling_a_full_disk_is_ended() -> None:
    """When its own directory is what grows; at the second look that finds room short."""
    series = Series()
    assert not series.memory.weigh
    assert series.look(volumes=(volume(GIB - 1),)) == []
    assert series.memory.weigh
    assert remedies(series.look(volumes=(volume(200 * MIB),), weight=weight(GIB)), Rule.DISK) == [Remedy.TIDY]
    (end,) = series.look(volumes=(volume(100 * MIB),), weight=weight(GIB + 90 * MIB))
    assert (end.rule, end.remedy, end.observations) == (Rule.DISK, Remedy.END, 2)


@pytest.mark.parametrize(
    ("size", "whole"), [(GIB, True), (GIB - MIB, True), (GIB + 40 * MIB, True), (GIB + 90 * MIB, False)]
)
def test_who_is_not_what_grows_is_not_ended(size: int, whole: bool) -> None:
    """The disk has 100 MiB more; the agent nothing, less, a smaller part, or what cannot be seen as a whole."""
    series = Series()
    series.look(volumes=(volume(200 * MIB),), weight=weight(GIB))
    found = series.look(volumes=(volume(100 * MIB),), weight=weight(size, whole=whole))
    assert remedies(found, Rule.DISK) == [Remedy.TELL]


def test_files_are_room_too() -> None:
    """Under 5 % of the inodes; and an agent that makes them."""
    series = Series()
    assert series.look(volumes=(volume(GIB * 50, 50_000),)) == []
    few = remedies(series.look(volumes=(volume(GIB * 50, 49_999),), weight=weight(GIB)), Rule.DISK)
    assert few == [Remedy.TIDY]
    found = series.look(volumes=(volume(GIB * 50, 40_000),), weight=weight(GIB, 10_000))
    assert remedies(found, Rule.DISK) == [Remedy.END]
    unbounded = ROOMY._replace(inodes=0, inodes_free=0)
    assert Series().look(volumes=(unbounded,)) == []


def test_the_keeps_own_full_disk_ends_nobody() -> None:
    """What the agent has in its directory does not fill another disk."""
    series = Series()
    var = volume(MIB)._replace(name="var")
    series.look(volumes=(ROOMY, var), weight=weight(GIB))
    found = series.look(volumes=(ROOMY, var._replace(free=0)), weight=weight(2 * GIB))
    assert remedies(found, Rule.DISK) == [Remedy.TELL]


def _at(seconds: float, *processes: Process, reaped: float = 0.0, group: float | None = None) -> Sample:
    return dataclasses.replace(
        BEGINNING,
        monotonic=1000.0 + seconds,
        boottime=5000.0 + seconds,
        processes=processes,
        reaped=reaped,
        group_seconds=group,
        cores=8.0,
    )


def _process(pid: int, own: float, children: float = 0.0, born: float = -100.0) -> Process:
    return Process(pid, int((5000 + born) * TICKS), "x", own, children)


def test_time_moves_from_a_child_to_its_parent_and_is_counted_once() -> None:
    """Seen alive, then waited for: what it used since is all that is added."""
    before = _at(0, _process(1, 10, 5), _process(2, 100))
    assert used(before, _at(30, _process(1, 11, 125))) == 1 + 20
    assert used(before, _at(30, _process(1, 11, 5), reaped=120.0)) == 1 + 20


def test_children_that_were_never_seen_are_counted_through_whoever_waited() -> None:
    """Born and gone between two looks: by their parent, or by the watcher when they were orphans."""
    before = _at(0, _process(1, 10, 5))
    assert used(before, _at(30, _process(1, 10, 35))) == 30
    assert used(before, _at(30, _process(1, 10, 5), reaped=7.0)) == 7


def test_a_new_process_counts_and_one_that_was_only_not_seen_does_not() -> None:
    """What an older one had used before is not of this time."""
    before = _at(0)
    assert used(before, _at(30, _process(3, 9, 1, born=5))) == 10
    assert used(before, _at(30, _process(3, 9, 1, born=-5))) == 0


def test_a_pid_that_is_another_process_now_is_another() -> None:
    """The start time tells them apart."""
    before = _at(0, _process(3, 500))
    assert used(before, _at(30, _process(3, 2, born=10))) == 2


def test_what_nobody_waited_for_hides_no_other() -> None:
    """A process that vanished without anybody taking its time takes nothing away from those that are seen."""
    assert used(_at(0, _process(1, 0), _process(2, 900)), _at(30, _process(1, 30))) == 30


def test_the_containers_own_count_is_taken_where_there_is_one() -> None:
    """It knows what nobody waited for; only when both looks have it."""
    assert used(_at(0, group=100.0), _at(30, group=160.0)) == 60
    assert used(_at(0, _process(1, 0)), _at(30, _process(1, 12), group=160.0)) == 12


_some = st.lists(
    st.builds(
        Process,
        st.integers(1, 5),
        st.integers(0, 5100 * TICKS),
        st.just("x"),
        st.floats(0, 1e4),
        st.floats(0, 1e4),
    ),
    max_size=4,
)


@given(_some, _some, st.floats(0, 100), st.floats(0, 1e4), st.none() | st.floats(0, 1e5))
def test_never_less_than_nothing_nor_more_than_there_is(
    first: list[Process], second: list[Process], seconds: float, reaped: float, group: float | None
) -> None:
    """Whatever two looks show."""
    before, after = _at(0, *first, group=group), _at(seconds, *second, reaped=reaped, group=group and group / 2)
    assert 0 <= used(before, after) <= 8 * seconds + 1e-6
