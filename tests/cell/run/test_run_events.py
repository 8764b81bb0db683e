"""A run leaves its events in the mind, and ends when it cannot; without a mind nothing is asked of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from infra.cell.run_states import StopReason
from infra.shared.mind.event import MindEvent, event_files
from infra.shared.safe_files import Below
from tests.cell.cell import Cell
from tests.cell.loop.replies import bash, calls, says
from tests.cell.loop.waiting import wait_for
from tests.cell.run.test_opening import session_of_the_command
from tests.cell.run.test_run import work
from tests.shared.mind.events import logged


def with_mind(cell: Cell) -> Below:
    os.makedirs(cell.places.mind, exist_ok=True)
    os.makedirs(cell.places.var, exist_ok=True)
    return Below(cell.places.events)


def events(log: Below) -> list[MindEvent]:
    return [each.event for each in logged(log.root)]


def test_each_run_leaves_its_events(cell: Cell) -> None:
    mind = with_mind(cell)
    for words in ("first thing", "second thing"):
        cell.tell(words)
        work(cell, calls(bash("echo hi; exit 3"), text="I try it."), says("Done."))
    written = events(mind)
    assert [(each.event_type, each.metadata.status) for each in written] == [
        ("task_update", "began"),
        ("skill_execution", "ok"),
        ("task_update", "completed"),
    ] * 2
    assert (written[1].execution.exit_codes, written[1].context.intent) == ((3,), "I try it.")
    assert written[0].outcomes.observations == "first thing"
    assert [each.seq for each in written] == [1, 2, 3, 4, 5, 6]


def test_a_file_with_the_minds_name_is_no_mind(cell: Cell) -> None:
    Path(cell.places.mind).write_text("not mine\n")
    cell.tell("do it")
    assert work(cell, says("Done."))[0].reason is StopReason.COMPLETED


@pytest.mark.heavy
def test_a_killed_runner_and_the_one_that_goes_on_write_one_chain(cell: Cell, tmp_path: Path) -> None:
    """What was done is told of once, and what was begun as an act that was cut short."""
    os.makedirs(cell.places.var, exist_ok=True)
    cell.git_of_mind()
    did = tmp_path / "did"
    cell.tell("do it")
    first = cell.start(cell.boot())
    cell.model.replies += [
        calls(bash(f"echo one >> {did}", id="1")),
        calls(bash(f"echo two >> {did}; exec sleep 1000", id="2")),
    ]
    wait_for(lambda: did.exists() and did.read_text() == "one\ntwo\n", "the second command")
    sleeping = session_of_the_command(first.process.pid)
    first.process.kill()
    first.ended()
    os.killpg(sleeping, signal.SIGKILL)
    mind = Below(cell.places.events)
    with open(f"{cell.places.events}/{event_files(mind)[0]}", "ab") as file:
        file.write(b'{"timestamp":"20')
    cell.model.replies.append(says("It is done."))
    cell.start(cell.boot())
    wait_for(lambda: cell.reported("It is done."), "the report")
    wait_for(lambda: events(mind)[-1].metadata.status == "completed", "the last event")
    told = [(each.step_id, each.event_type, each.metadata.status) for each in events(mind)]
    assert told == [
        ("", "task_update", "began"),
        ("1.1", "skill_execution", "ok"),
        ("", "task_update", "went on"),
        ("2.1", "error", "failed"),
        ("", "task_update", "completed"),
    ]
    assert len({each.run_id for each in events(mind)}) == 1


def test_without_a_mind_there_are_no_events(cell: Cell) -> None:
    cell.tell("do it")
    work(cell, says("Done."))
    assert not os.path.exists(cell.places.mind)
