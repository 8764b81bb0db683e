"""A run leaves its events in the mind, and ends when it cannot; without a mind nothing is asked of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from infra.cell.mind.event import MindEvent
from infra.cell.mind.event_chain import verify
from infra.cell.mind.event_log import event_files, logged
from infra.cell.mind.event_writer import EventWriter
from infra.cell.run_states import StopReason
from infra.shared.mind.heads import FILE, Head, read_heads
from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below
from tests.cell.loop.replies import bash, calls, says
from tests.cell.loop.waiting import wait_for
from tests.cell.runner.cell import Cell, read, write
from tests.cell.runner.test_resume import session_of_the_command
from tests.cell.runner.test_run import work


def with_mind(cell: Cell) -> Below:
    os.makedirs(cell.places.mind, exist_ok=True)
    os.makedirs(cell.places.var, exist_ok=True)
    return Below(cell.places.mind)


def events(mind: Below) -> list[MindEvent]:
    return [each.event for each in logged(mind) if each.event]


def heads(cell: Cell) -> list[Head]:
    content = Path(f"{cell.places.var}/{FILE}").read_bytes()
    return read_heads(content)


def test_each_run_leaves_its_events_and_the_keep_knows_where_they_end(cell: Cell) -> None:
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
    assert [each.run_id for each in written[::3]] == [each.run for each in heads(cell)]
    assert not verify(logged(mind), heads(cell))
    path = f"{cell.places.mind}/{EVENTS}/{written[0].timestamp[:10]}.jsonl"
    write(path, read(path).replace("exit 3", "exit 0"))
    assert [each.line for each in verify(logged(mind), heads(cell))] == [2, 5]


SPOILS = {
    "a file for the logs": "mv logs aside; touch logs",
    "a file for the events": "mv logs/events aside; touch logs/events",
    "a link to nowhere": "mv logs/events aside; ln -s /nowhere logs/events",
    "a directory for the file": "mkdir aside; for f in logs/events/*; do mv $f aside; mkdir $f; done",
    "a pipe": "mkdir aside; for f in logs/events/*; do mv $f aside; mkfifo $f; done",
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_what_one_run_leaves_where_the_events_belong_does_not_end_the_next(cell: Cell, spoil: str) -> None:
    """Nobody but the agent can see that place: it would never work again."""
    mind = with_mind(cell)
    cell.tell("do it")
    outcome, _ = work(cell, calls(bash(f"cd {mind.root} && {spoil}; touch spoilt")), says("never said"))
    assert (outcome.reason, os.path.exists(f"{mind.root}/spoilt")) == (StopReason.NOT_RECORDED, True)

    assert work(cell, says("Done."))[0].reason is StopReason.COMPLETED

    assert [each.metadata.status for each in events(mind)] == ["began", "completed"]
    assert any(".aside-" in name for _, folders, files in os.walk(mind.root) for name in (*folders, *files))


def test_a_place_for_events_that_is_closed_is_opened(tmp_path: Path) -> None:
    path = tmp_path / EVENTS / "2026-01-31.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    for each in (path, path.parent, path.parent.parent):
        each.chmod(0o400)

    EventWriter(str(tmp_path), lambda *_, **__: None).make_place("2026-01-31T10:00:00.000Z")

    assert [each.stat().st_mode & 0o700 for each in (path.parent.parent, path.parent, path)] == [0o700, 0o700, 0o600]


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
    mind = Below(cell.places.mind)
    with open(f"{cell.places.mind}/{event_files(mind)[0]}", "ab") as file:
        file.write(b'{"timestamp":"20')
    cell.model.replies.append(says("It is done."))
    cell.start(cell.boot())
    wait_for(lambda: cell.reported("It is done."), "the report")
    wait_for(lambda: os.path.exists(f"{cell.places.var}/{FILE}"), "the note of the keep")
    told = [(each.step_id, each.event_type, each.metadata.status) for each in events(mind)]
    assert told == [
        ("", "task_update", "began"),
        ("1.1", "skill_execution", "ok"),
        ("", "task_update", "went on"),
        ("2.1", "error", "failed"),
        ("", "task_update", "completed"),
    ]
    assert len({each.run_id for each in events(mind)}) == 1
    assert len(heads(cell)) == 1
    assert not verify(logged(mind), heads(cell))


def test_without_a_mind_there_are_no_events(cell: Cell) -> None:
    cell.tell("do it")
    work(cell, says("Done."))
    assert not os.path.exists(cell.places.mind)
