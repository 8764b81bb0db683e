"""Calls that the PM is asked about: on the page, over restarts, answered by a push; all but the model is real."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.record import Acted
from infra.cell.run_states import StopReason
from infra.cell.runner.approvals import Approvals
from infra.cell.runner.run import work_on
from infra.cell.tools.tool import Verdict
from infra.shared import comms
from infra.shared.conversation import REFUSAL, Request
from infra.shared.policy import Policy, Rule
from tests.cell.cell import Cell, Runner, limits, read
from tests.cell.loop.replies import Canned, bash, calls, results, says, texts
from tests.cell.loop.waiting import wait_for

ASKS = Policy(rules=(Rule("ask", commands=("touch *",), why="it leaves a file"),))
TOUCH = "touch made-$(ls | grep -c ^made-)"
"""Each time another file, so that files count the times it was run."""


def asked_ids(cell: Cell) -> list[str]:
    return [found for report in cell.reports() for found in re.findall(r"approval wanted \[(\w{16})\]: bash\n", report)]


def made(cell: Cell) -> int:
    return sum(name.startswith("made-") for name in os.listdir(cell.checkout))


def flags(cell: Cell) -> list[list[str]]:
    """What the policy had to say of each call that it spoke of, in order of runs."""
    directory = f"{cell.checkout}/logs/transcripts"
    lines = [
        json.loads(line)
        for name in sorted(os.listdir(directory))
        for line in read(f"{directory}/{name}").split("\n")
        if line
    ]
    return [line["policy_flags"] for line in lines if line.get("policy_flags")]


def ended(run: Runner) -> None:
    run.ask_to_end()
    assert run.ended() == 0, run.log()


def start(cell: Cell, **boot: Any) -> Runner:
    run = cell.start(cell.boot(policy=ASKS, **boot))
    run.sleeps()
    return run


def waits(cell: Cell) -> tuple[Runner, str]:
    """A runner whose run has asked and ended, and the id of what it asked."""
    cell.tell("make it")
    cell.model.replies += [calls(bash(TOUCH)), says("I wait for you.")]
    run = start(cell)
    wait_for(lambda: cell.reported("stopped (awaiting_approval): make it"), "the end of the unit")
    [id] = asked_ids(cell)
    return run, id


@pytest.mark.heavy
def test_a_call_waits_over_a_restart_for_the_pm_and_is_made_once(cell: Cell) -> None:
    """Asked once, nothing ticked, no model call until the PM answers; then the call is made and all is ticked."""
    run, id = waits(cell)
    told = results(cell.model.requests[1])[0]
    assert told.is_error
    assert id in told.content
    assert "end your turn" in told.content
    assert made(cell) == 0
    assert cell.open() == ["make it"]
    assert "it leaves a file" in cell.page()
    assert json.dumps({"command": TOUCH}) in cell.page()
    ended(run)

    again = start(cell)
    assert len(cell.model.requests) == 2, "a new start asks nobody"
    cell.model.replies += [calls(bash(TOUCH)), says("It is made.")]
    cell.tell(f"Approve {id}")

    wait_for(lambda: cell.reported("It is made."), "the report")
    assert made(cell) == 1
    assert asked_ids(cell) == [id]
    assert cell.open() == []
    assert len(cell.model.requests) == 4
    assert flags(cell) == [["rule 1", f"asked {id}"], ["rule 1", f"approved {id}"]]
    ended(again)


@pytest.mark.heavy
def test_a_denied_call_is_told_with_the_pms_words(cell: Cell) -> None:
    """It is not made, and the run can end."""
    run, id = waits(cell)
    cell.model.replies += [calls(bash(TOUCH)), says("Then not.")]

    cell.tell(f"deny {id}: use mktemp")

    wait_for(lambda: cell.reported("Then not."), "the report")
    told = results(cell.model.requests[-1])[0]
    assert told.is_error
    assert "denies" in told.content
    assert "use mktemp" in told.content
    assert made(cell) == 0
    assert cell.open() == []
    assert flags(cell)[-1] == ["rule 1", f"denied {id}"]
    ended(run)


@pytest.mark.heavy
def test_an_answer_reaches_the_unit_that_still_works(cell: Cell) -> None:
    """It is told between two steps, and need not begin anew."""

    def answer(request: Request) -> Any:
        cell.tell(f"approve {asked_ids(cell)[0]}")
        return calls(bash("true"))

    def told(request: Request) -> Any:
        if not any("approves call" in text for text in texts(request)):
            cell.model.replies.appendleft(told)
            return calls(bash(f"sleep 0.1; echo {len(cell.model.requests)}"))
        return calls(bash(TOUCH))

    cell.tell("make it")
    cell.model.replies += [calls(bash(TOUCH)), answer, told, says("It is made.")]
    run = start(cell)

    wait_for(lambda: cell.reported("It is made."), "the report")
    assert made(cell) == 1
    assert not cell.reported("stopped (")
    assert cell.open() == []
    ended(run)


@pytest.mark.heavy
def test_an_answer_that_came_while_the_model_gave_up_is_used_at_once(cell: Cell) -> None:
    """The run that waits begins anew without waiting for the clock."""

    def answered(request: Request) -> Any:
        cell.tell(f"approve {asked_ids(cell)[0]}")
        return calls(bash("true"))

    def give_up(request: Request) -> Any:
        if not any("approves call" in text for text in texts(request)):
            cell.model.replies.appendleft(give_up)
            return calls(bash(f"sleep 0.1; echo {len(cell.model.requests)}"))
        return says("I give up.")

    cell.tell("make it")
    cell.model.replies += [calls(bash(TOUCH)), answered, give_up, calls(bash(TOUCH)), says("It is made.")]
    run = cell.start(cell.boot(policy=ASKS))

    wait_for(lambda: cell.reported("It is made."), "the report")
    assert cell.reported("stopped (awaiting_approval): make it")
    assert made(cell) == 1
    ended(run)


@pytest.mark.heavy
def test_what_waits_is_not_tried_at_ticks_and_what_waits_no_more_is(cell: Cell) -> None:
    """The clock is not an answer; but once a run ended otherwise, the same Directives are work like any other."""
    cell.tell("make it")
    cell.model.replies += [calls(bash(TOUCH)), says("I wait for you.")]
    run = start(cell, limits=limits(work_seconds=0.2))
    wait_for(lambda: cell.reported("stopped (awaiting_approval): make it"), "the end of the unit")
    before = run.log().count('"by": "clock')
    wait_for(lambda: run.log().count('"by": "clock') > before + 3, "some ticks")
    assert len(cell.model.requests) == 2

    cell.model.at_last = says("No.", REFUSAL)
    page = cell.page()
    cell.tell("more")
    wait_for(lambda: cell.reported("stopped (refusal): make it (+1)"), "the end of the next unit")
    cell.pm_edits(lambda now: now.replace("- [ ] more\n", ""), "not that")
    assert comms.section_text(cell.page(), comms.DIRECTIVES) == comms.section_text(page, comms.DIRECTIVES)
    # The PM may have spoken while a try was being reported, which then counts as the first.
    tries = ("stopped (refusal): make it\n", "stopped (refusal, try 2 of 3): make it\n")
    wait_for(lambda: any(map(cell.reported, tries)), "another try")
    ended(run)


def test_the_runners_own_first_read_asks_nobody(cell: Cell) -> None:
    """Under the strictest policy the model still learns where it is, and can do nothing else."""
    cell.tell("do it")
    model = Canned([calls(bash("touch made-1")), says("I may do nothing.")])
    context = cell.context(model, policy=Policy("deny"))
    seen = context.page.look()

    assert work_on(context, seen, seen.open, None, look_back=False).reason is StopReason.COMPLETED

    opened, told = results(model.requests[0])[0], results(model.requests[1])[0]
    assert not opened.is_error
    assert told.content.startswith("bash: the PM's policy denies this (policy.default)")
    assert made(cell) == 0


@pytest.mark.heavy
def test_an_answer_alone_is_no_work(cell: Cell) -> None:
    """No model is asked for it; with the next run it is ticked."""
    run = start(cell)
    cell.tell("deny 0123abcd0123abcd")
    cell.pm_changes({"src/other.md": "of the PM's\n"}, "another push")
    wait_for(lambda: os.path.exists(f"{cell.checkout}/src/other.md"), "the checkout follows main")
    assert cell.model.requests == []

    cell.tell("do it")
    wait_for(lambda: cell.reported("done: do it"), "the report")
    assert comms.open_directives(cell.page()) == []
    ended(run)


def approvals(cell: Cell) -> Approvals:
    context = cell.context()
    return Approvals(context, context.page.look())


def ask(it: Approvals, command: str = "x") -> Verdict:
    return it.ask("bash", {"command": command}, "rule 1")


@pytest.mark.heavy
def test_nothing_is_asked_twice_but_by_another_unit(cell: Cell) -> None:
    """The keep knows what was asked; when a run is done, that is over, and an answer to it too."""
    cell.tell("do it")
    first, second = ask(approvals(cell)), ask(approvals(cell))
    [id] = asked_ids(cell)
    assert (first.allowed, first.status, first.flags) == (False, "awaiting_approval", (f"asked {id}",))
    assert second == first
    cell.tell(f"approve {id}")
    assert ask(approvals(cell)).flags == (f"approved {id}",)

    context = cell.context()
    context.page.report("main@0123456789ab done: it", "Done.", (context.page.look().open[0].id,))
    assert ask(approvals(cell)).status == "awaiting_approval"
    assert len(asked_ids(cell)) == 2


def test_each_answer_is_told_once(cell: Cell) -> None:
    """Also when another call was asked about meanwhile."""
    it = approvals(cell)
    ask(it)
    [id] = asked_ids(cell)
    cell.tell(f"approve {id}")
    ask(it, "y")

    seen = cell.context().page.look()
    assert f"approves call {id}" in (it.news(seen) or "")
    assert it.news(seen) is None
    assert it.awaits()

    for other in asked_ids(cell):
        cell.tell(f"deny {other}: no")
    assert (it.news(cell.context().page.look()) or "").count(": no") == 2
    assert not it.awaits()


def test_an_approval_is_for_one_call_alone(cell: Cell) -> None:
    """No other is made for it."""
    it = approvals(cell)
    ask(it)
    [id] = asked_ids(cell)
    cell.tell(f"approve {id}")

    assert ask(it).allowed
    assert ask(it, "y").status == "awaiting_approval"


def test_nothing_waits_for_a_question_that_could_not_be_asked(cell: Cell) -> None:
    """What keeps the keep from asking is the call's error; tried again, it is asked once."""
    it = approvals(cell)
    os.rename(cell.places.remote, f"{cell.places.remote}.away")
    with pytest.raises(OSError, match="could not be asked"):
        ask(it)
    assert not it.awaits()
    os.rename(f"{cell.places.remote}.away", cell.places.remote)
    cell.close_git_door()
    with pytest.raises(OSError, match="could not be asked"):
        ask(it)

    cell.open_git_door()
    assert ask(it).status == "awaiting_approval"
    assert it.awaits()
    assert len(asked_ids(cell)) == 1


def test_a_call_that_cannot_be_asked_about_is_denied(cell: Cell) -> None:
    """It is too long for one question; the model is told what to do."""
    told = ask(approvals(cell), "x" * 300_000)
    assert (told.allowed, told.status, told.flags) == (False, "denied", ("denied",))
    assert "cannot be asked" in told.words
    assert asked_ids(cell) == []


def test_a_unit_that_is_gone_on_with_knows_what_waits(cell: Cell) -> None:
    """By its record: what it asked and was not answered."""
    asked = ask(approvals(cell))
    [id] = asked_ids(cell)

    def call(command: str) -> ToolCall:
        return ToolCall(command, "bash", {"command": command})

    reply = ToolResult.err(asked.status, asked.words)._replace(policy_flags=("rule 1", *asked.flags))
    made = ToolResult("", policy_flags=("rule 1", "approved 0000000000000000"))
    of_before = reply._replace(policy_flags=("rule 1", "asked"))
    acts = {"1.1": (call("x"), reply), "1.2": (call("y"), of_before), "2.1": (call("y"), made)}

    it = approvals(cell)
    it.recall(Acted.of(where, *act, 0.0) for where, act in acts.items())
    assert it.awaits()
    cell.tell(f"deny {id}")
    assert f"denies call {id}" in (it.news(cell.context().page.look()) or "")
    assert not it.awaits()
