"""Exploration: with nothing else to do, within its budget, and never in the way of work."""

from __future__ import annotations

import json

import pytest

from infra.cell.runner.exploring import Exploring
from infra.cell.runner.task_desk import TaskDesk
from infra.shared.conversation import Request
from infra.shared.mind.layout import INBOX, OPEN_QUESTIONS
from infra.shared.mind_settings import ExplorationSettings, RunnerMind, to_json
from tests.cell.loop.replies import bash, calls, says
from tests.cell.loop.waiting import wait_for
from tests.cell.runner.cell import Cell, read
from tests.cell.runner.doors import Refusal
from tests.cell.runner.minds import PmMind, block

heavy = pytest.mark.heavy
QUESTIONS = "# Open questions\n\n- Q-0001: How large is it?\n  In lines.\n- Q-0002: And why?\n\nMore.\n"


def explores(**settings: float) -> str:
    return to_json(RunnerMind(exploration=ExplorationSettings(**({"usd": 1.0} | settings))))  # type: ignore[arg-type]


def labels(cell: Cell) -> list[str]:
    return [request.label for request in cell.model.requests]


@heavy
def test_questions_are_explored_behind_all_work_and_answered_below(cell: Cell) -> None:
    """As runs with a label; on the page stands nothing of it. The events say what was spent."""
    mind = PmMind(cell, {OPEN_QUESTIONS: QUESTIONS})
    mind.add(block("TASK-001", "Work."))
    priced = calls(bash("true"))._replace(usd=0.25)
    cell.model.replies += [
        says("Done."),
        priced,
        says("Very large.\n\nIndeed.")._replace(usd=0.5),
        says("Nobody knows."),
    ]

    run = cell.start(cell.boot(mind=explores()))
    wait_for(lambda: "Nobody knows" in mind.read(OPEN_QUESTIONS), "the answers")

    assert labels(cell) == ["task", *["exploration"] * 3]
    found = mind.read(OPEN_QUESTIONS).splitlines()
    assert found[2:4] == ["- Q-0001: How large is it?", "  In lines."]
    assert found[4].startswith("  - Answer (20")
    assert found[4].endswith("): Very large. Indeed.")
    assert found[6].endswith("): Nobody knows.")
    assert found[-1] == "More."
    assert len(cell.reports()) == 1
    events = [json.loads(line) for line in read(_events(cell)).splitlines()]
    spent = [(each["metadata"]["label"], each["metadata"]["curiosity_spend"]) for each in events]
    assert sum(usd for label, usd in spent if label == "exploration") == 0.75
    assert all(usd == 0 for label, usd in spent if label == "task")
    run.sleeps()
    assert len(cell.model.requests) == 4


@heavy
def test_used_up_exploration_waits_and_tasks_go_on(cell: Cell) -> None:
    """The door refuses; nothing is reported for it, and a task that comes is done at once."""
    mind = PmMind(cell, {OPEN_QUESTIONS: QUESTIONS})
    exhausted = Refusal("exploration_exhausted", "what may be explored in a day would be passed")

    def door(request: Request) -> object:
        return exhausted if request.label != "task" else says("Done.")

    cell.model.at_last = door  # type: ignore[assignment]
    run = cell.start(cell.boot(mind=explores()))
    run.sleeps()
    mind.add(block("TASK-001", "Work."))

    wait_for(lambda: cell.reported("done: Task TASK-001"), "the task")
    assert labels(cell) == ["exploration", "task"]
    assert mind.read(OPEN_QUESTIONS) == QUESTIONS
    assert len(cell.reports()) == 1
    assert mind.read(INBOX) == "# Inbox\n"


def test_nothing_is_explored_without_an_amount_or_without_time(cell: Cell) -> None:
    """By default no model is called with nothing to do; time is counted over restarts."""
    PmMind(cell, {OPEN_QUESTIONS: QUESTIONS})

    def may_explore(settings: str) -> bool:
        context = cell.context(mind=settings)
        desk = TaskDesk(context)
        desk.look()
        return Exploring(context, desk).next_job() is not None

    assert may_explore(explores(seconds=9.0))
    assert not may_explore("")
    context = cell.context()
    context.state.explored(context.now()[:10], 9.0)
    assert not may_explore(explores(seconds=9.0))
    assert may_explore(explores(seconds=10.0))


def _events(cell: Cell) -> str:
    return f"{cell.places.mind}/logs/events/{cell.context().now()[:10]}.jsonl"
