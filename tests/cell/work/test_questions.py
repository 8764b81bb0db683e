"""Exploration: with nothing else to do, within its budget, and never in the way of work."""

from __future__ import annotations

import json
import os

import pytest

from infra.cell.wakes import Wakes
from infra.cell.work.questions import DAY_SECONDS, Questions
from infra.cell.work.tasks import Tasks
from infra.shared.conversation import Completion, Request
from infra.shared.mind.layout import INBOX, OPEN_QUESTIONS
from infra.shared.policy import Policy
from tests.cell.cell import Cell, read, write
from tests.cell.doors import Refusal
from tests.cell.life.days import one_day
from tests.cell.loop.replies import bash, calls, says
from tests.cell.minds import PmMind, block
from tests.shared.web_traces import EVIL, WebTrace

QUESTIONS = "# Open questions\n\n- Q-0001: How large is it?\n  In lines.\n- Q-0002: And why?\n\nMore.\n"


def exhausted(request: Request) -> Completion | Refusal:
    """The door, where nothing more may be explored."""
    return says("Done.") if request.label == "task" else Refusal("exploration_exhausted")


def labels(cell: Cell) -> list[str]:
    return [request.label for request in cell.model.requests]


@pytest.mark.heavy
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

    one_day(cell, exploration_usd=1.0)

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


@pytest.mark.heavy
def test_the_pm_is_not_asked_for_what_is_explored(cell: Cell) -> None:
    """A call that the policy would ask about is denied."""
    PmMind(cell, {OPEN_QUESTIONS: QUESTIONS})
    cell.model.replies += [calls(bash("true")), says("Large."), says("Nobody knows.")]

    one_day(cell, exploration_usd=1.0, policy=Policy(default="ask"))

    assert "is not asked for this work" in str(cell.model.requests[1].messages[-1])
    assert not os.path.exists(cell.places.questions) or not os.listdir(cell.places.questions)


@pytest.mark.heavy
def test_used_up_exploration_waits_and_tasks_go_on(cell: Cell) -> None:
    """The door refuses; nothing is reported for it, and a task that comes is done at once."""
    mind = PmMind(cell, {OPEN_QUESTIONS: QUESTIONS})
    cell.model.at_last = exhausted
    one_day(cell, lambda: mind.add(block("TASK-001", "Work.")), exploration_usd=1.0)

    assert cell.reported("done: Task TASK-001")
    assert labels(cell) == ["exploration", "task"], "nor is another question tried that day"
    assert mind.read(OPEN_QUESTIONS) == QUESTIONS
    assert len(cell.reports()) == 1
    assert mind.read(INBOX) == "# Inbox\n"


def test_nothing_is_explored_without_an_amount_or_without_time(cell: Cell) -> None:
    """By default no model is called with nothing to do; time is counted over restarts."""
    PmMind(cell, {OPEN_QUESTIONS: QUESTIONS})

    def may_explore(usd: float | None) -> bool:
        context = cell.context(exploration_usd=usd)
        tasks, seen = Tasks(context, Wakes("", context.log, context.interruption)), context.page.look()
        tasks.look()
        return bool([*Questions(context, tasks).open(seen)])

    assert may_explore(1.0)
    assert not may_explore(None)
    write(f"{cell.places.mind}/{OPEN_QUESTIONS}", "- Q-0003 (web): What nobody pushed?\n")
    assert not may_explore(1.0)
    write(f"{cell.places.mind}/{OPEN_QUESTIONS}", QUESTIONS)
    context = cell.context()
    context.state.change(explored={context.now()[:10]: {"Q-0009": DAY_SECONDS}})
    assert not may_explore(1.0)


@pytest.mark.heavy
def test_an_answer_from_the_web_says_so(cell: Cell) -> None:
    """What the run asks anew is not kept. The next one did not read the web, though the agent is tainted still."""
    asked = "- Q-0001 (web): Who?\n- Q-0002: How?\n"
    os.makedirs(cell.places.var, exist_ok=True)
    mind, trace = PmMind(cell, {OPEN_QUESTIONS: asked}), WebTrace(cell.places)

    def read(request: Request) -> Completion:
        trace.served(ago=0.0)
        return calls(bash(f"echo '- Q-0003: What does evil say?' >>{cell.places.mind}/{OPEN_QUESTIONS}"))

    cell.model.replies += [read, says("Evil says so."), says("So.")]
    one_day(cell, exploration_usd=1.0)
    assert f"read from the web: {EVIL}): Evil says so." in mind.read(OPEN_QUESTIONS)

    assert "Q-0003" not in mind.read(OPEN_QUESTIONS)
    assert "): So." in mind.read(OPEN_QUESTIONS)
    assert mind.read(OPEN_QUESTIONS).count("read from the web") == 1


def _events(cell: Cell) -> str:
    return f"{cell.places.events}/{cell.context().now()[:10]}.jsonl"
