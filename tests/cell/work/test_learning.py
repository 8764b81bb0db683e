"""A real run notes what the PM says; the next one is shown it, and the branch holds it."""

from __future__ import annotations

import os

import pytest

from infra.cell.mind import notes as left_notes
from infra.shared.mind.layout import DRIFT_REPORTS, IDENTITY
from infra.shared.paths import CHECKOUT_VARIABLE
from infra.shared.policy import Policy, Rule
from tests.cell.cell import Cell, write
from tests.cell.life.days import one_day
from tests.cell.loop.replies import bash, calls, says
from tests.cell.minds import PmMind
from tests.shared.mind.events import logged

pytestmark = pytest.mark.heavy


def test_a_note_by_a_shell_is_a_note_of_the_run(cell: Cell) -> None:
    """As by the tool; what an earlier run left is nobody's, and what is no note is refused. So is one whose check
    the PM would be asked about: no model would be told of the answer."""
    PmMind(cell)
    cell.bare("clone", "--quiet", "--branch=mind", cell.places.remote, cell.places.mind)
    cell.tell("Find the port.")
    left = left_notes.LEFT
    left_notes.leave(cell.places.mind, "note", {"subject": "spy", "statement": "it is left over"})
    note = f"{CHECKOUT_VARIABLE}={cell.checkout} minifram-mind note port"
    checked = f"{note} 'the port is 8080' --check 'grep -q 8080 {cell.checkout}/port'"
    script = f"echo 8080 >port; mkdir -p {cell.places.mind}/memory; {checked}; {note} 'the port is odd'"
    script += f"; {note} 'the port is asked for' --check 'test -e /asked'; echo x >{cell.places.mind}/{left}/0"
    write(f"{cell.checkout}/script", f"#!/bin/bash\n{script}\n")
    os.chmod(f"{cell.checkout}/script", 0o700)
    cell.model.replies += [calls(bash("./script")), says("Done.")]
    one_day(cell, policy=Policy(rules=(Rule("ask", commands=("test -e /asked",)),)))
    assert cell.reported("done: Find the port.")
    events = [each.event for each in logged(cell.places.events)]
    notes = [each for each in events if each.metadata.tool == "note"]
    assert [(each.event_type, each.metadata.details.get("statement")) for each in notes] == [
        ("error", None),
        ("note", "the port is 8080"),
        ("note", "the port is odd"),
        ("error", "the port is asked for"),
    ]
    assert notes[1].metadata.details["exit_status"] == 0
    assert {each.step_id for each in notes} == {"1.1"}
    assert os.listdir(f"{cell.places.mind}/{left}") == []
    assert "Claim: the port is 8080" in cell.bare("show", "mind:memory/long_term.md")
    assert "odd" not in cell.bare("show", "mind:memory/long_term.md")


def test_what_a_run_changed_of_the_pms_is_put_back_and_told(cell: Cell) -> None:
    """In its report, and in the drift report on the branch."""
    mind = PmMind(cell, {IDENTITY: "I am.\n"})
    cell.tell("Change who you are.")
    cell.model.replies += [calls(bash(f"echo I am free >{cell.places.mind}/{IDENTITY}")), says("Done.")]
    one_day(cell)
    assert any(f"yours alone, and were put back: {IDENTITY}" in each for each in cell.reports())
    assert f"put back as the branch has it: '{IDENTITY}'" in mind.read(DRIFT_REPORTS)
    assert mind.read(IDENTITY) == "I am.\n"
