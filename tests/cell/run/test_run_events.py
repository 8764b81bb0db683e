"""A run leaves its events in the mind, and ends when it cannot; without a mind nothing is asked of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.cell.run_states import StopReason
from tests.cell.cell import Cell
from tests.cell.loop.replies import bash, calls, says
from tests.cell.run.test_run import work
from tests.shared.mind.events import logged


def test_each_run_leaves_its_events(cell: Cell) -> None:
    os.makedirs(cell.places.mind)
    for words in ("first thing", "second thing"):
        cell.tell(words)
        work(cell, calls(bash("echo hi; exit 3"), text="I try it."), says("Done."))
    written = [each.event for each in logged(cell.places.events)]
    assert [(each.event_type, each.metadata.status) for each in written] == [
        ("task_update", "began"),
        ("skill_execution", "ok"),
        ("task_update", "completed"),
    ] * 2
    assert (written[1].execution.exit_codes, written[1].context.intent) == ((3,), "I try it.")
    assert written[0].outcomes.observations == "first thing"
    assert [each.seq for each in written] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("is_file", [True, False])
def test_without_a_mind_there_are_no_events(cell: Cell, is_file: bool) -> None:
    """A file with its name is none."""
    if is_file:
        Path(cell.places.mind).write_text("not mine\n")
    cell.tell("do it")
    assert work(cell, says("Done."))[0].reason is StopReason.COMPLETED
    assert os.path.exists(cell.places.mind) is is_file
