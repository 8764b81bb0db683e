"""Processor time while the agent says that it sleeps: what takes it is ended, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

import pytest

from infra.keep.active import Runner
from infra.keep.limits import growth, processor
from infra.keep.limits.judge import Memory, judge
from infra.keep.limits.sample import take
from infra.keep.limits.values import TICKS, Bounds, Finding, Process, Remedy, Rule, Sample
from infra.keep.services import processes
from infra.shared.identity import OURS
from infra.shared.paths import LIFE_FILE, Paths
from infra.shared.safe_files import Below
from infra.shared.status_file import SLEEPING, WORKING, RunnerStatus, write_status
from tests.keep.limits.conftest import Start
from tests.keep.limits.looks import BEGINNING, RUNNER, Series, remedies
from tests.keep.supervision.agents import within

NINE = tuple(Process(5000 + number, 6000 * TICKS, f"loop{number}", 100.0, 0.0) for number in range(9))
ASLEEP = dataclasses.replace(BEGINNING, is_asleep=True, processes=(*BEGINNING.processes, *NINE))


def runs(sample: Sample, seconds: float, each: float) -> tuple[Process, ...]:
    """The nine loops take `each` of a processor for so long."""
    runner, *loops = sample.processes
    return (runner, *(loop._replace(own=loop.own + each * seconds) for loop in loops))


def look(series: Series, each: float = 0.19, **changed: object) -> list[Finding]:
    changed.setdefault("processes", runs(series.last, 30.0, each))
    return [finding for finding in series.look(**changed) if finding.rule is Rule.IDLE]  # type: ignore[arg-type]


def test_nine_loops_in_its_sleep_are_found_within_two_minutes() -> None:
    """They are ended, and the runner only when that does not help."""
    series = Series(first=ASLEEP)
    assert look(series) == []
    (kill,) = look(series)
    assert (kill.remedy, kill.seconds, kill.observations) == (Remedy.KILL, 60.0, 2)
    assert RUNNER.pid not in {process.pid for process in kill.processes}
    assert len(kill.processes) >= 8, "until what is left is explained"
    assert "1.71 of 2 processors" in kill.text
    assert [finding.remedy for finding in look(series)] == [Remedy.KILL]
    (end,) = look(series)
    assert (end.remedy, end.runner) == (Remedy.END, RUNNER)


@pytest.mark.parametrize(
    "changed",
    [
        {"is_asleep": False},
        {"is_excused": True},
        {"calls": 1},
        {"progress": None},
        {"asleep": 60.0},
        {"each": 0.02},
    ],
)
def test_what_is_explained_is_left_alone(changed: dict[str, float]) -> None:
    """Work, what the keep itself has run, a run between two looks, a suspended machine, and what sleep takes."""
    series = Series(first=ASLEEP)
    for number in range(8):
        assert look(series, **(changed if number % 2 else {})) == []


def test_declared_services_have_their_share() -> None:
    """A quarter of all processors; beyond it what takes most is ended."""
    series = Series(first=dataclasses.replace(ASLEEP, has_services=True))
    assert [finding for _ in range(4) for finding in look(series, each=0.07)] == []
    found = [finding for _ in range(2) for finding in look(series)]
    assert remedies(found, Rule.IDLE) == [Remedy.KILL]
    assert len(found[0].processes) == 6


def test_a_runner_that_burns_in_its_sleep_is_ended_in_time() -> None:
    """No other process takes the time, so there is none to end before it."""
    series = Series(first=ASLEEP)
    found = [finding for _ in range(4) for finding in look(series, cores=1.5, processes=_spin(series))]
    assert remedies(found, Rule.IDLE) == [Remedy.TELL, Remedy.TELL, Remedy.END]


def _spin(series: Series) -> tuple[Process, ...]:
    runner, *others = series.last.processes
    return (runner._replace(own=runner.own + 45.0), *others)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"doing": 1}', '"sleeping"', "\udcff", '{"doing": "dreaming"}'])
def test_what_is_not_understood_is_no_sleep(places: Paths, content: str) -> None:
    """The agent writes the file."""
    path = Path(places.main_checkout, LIFE_FILE)
    path.write_text(content, errors="surrogateescape")
    status = growth.status_of(Below(places.bot), "main")
    assert status is None or status.doing != SLEEPING
    path.write_text(json.dumps({"doing": "sleeping", "services": "web running", "more": [1]}))
    assert growth.status_of(Below(places.bot), "main") == growth.LifeStatus("sleeping", "web running")


LOOP = "while True: pass"
LIMITS = Bounds(sample_seconds=1.0)


def test_real_loops_are_ended_and_their_quiet_neighbour_lives(places: Paths, start: Start) -> None:
    """By pid and start time, once the agent says that it sleeps; while it says that it works, they go on."""
    quiet = start("import time\ntime.sleep(600)")
    loops = [start(LOOP) for _ in range(2)]
    runner = Runner("b" * 32, "main", "c" * 40, quiet.pid, processes.start_time(quiet.pid) or 0.0)
    memory, found = Memory(), list[Finding]()
    status = os.path.join(places.main_checkout, LIFE_FILE)

    def seen() -> Finding | None:
        nonlocal memory
        time.sleep(max(0.0, (memory.last.monotonic if memory.last else 0.0) + 1.0 - time.monotonic()))
        memory, findings = judge(memory, take(places, OURS, runner, (), memory.last), LIMITS)
        found.extend(finding for finding in findings if finding.rule is Rule.IDLE)
        return next((finding for finding in found if finding.remedy is Remedy.KILL), None)

    write_status(status, RunnerStatus(WORKING, "t"))
    assert [seen() for _ in range(3)] == [None] * 3
    write_status(status, RunnerStatus(SLEEPING, "t"))
    finding = within(60, seen, "a finding")
    stranger = finding.processes[0]._replace(started=finding.processes[0].started + 1)
    assert not processor.end(stranger), "another process that has its pid"
    for process in finding.processes:
        processor.end(process)
    assert {loop.wait(30) for loop in loops if loop.pid in {process.pid for process in finding.processes}} == {-9}
    assert quiet.poll() is None
