"""Calls that the PM is asked about: on the page, over restarts, answered by a push; all but the model is real."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from infra.cell.actions import AWAITING, ToolCall, ToolResult
from infra.cell.interruption import Interrupted
from infra.cell.loop.record import Acted, Acting, args_hash
from infra.cell.run.approvals import Approvals
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Verdict
from infra.shared.conversation import Request, ToolUse
from infra.shared.policy import Policy, Rule
from tests.cell.cell import Cell, limits, read
from tests.cell.life.days import AGAIN, TICK, Story, lives, one_day, one_run
from tests.cell.loop.replies import Canned, bash, calls, results, says

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


def waits(cell: Cell, work: str = "make it") -> str:
    """The id of what a run has asked that has ended."""
    cell.tell(work)
    cell.model.replies += [calls(bash(TOUCH)), says("I wait for you.")]
    one_day(cell, policy=ASKS)
    assert cell.reported(f"stopped (awaiting_approval): {work}")
    return asked_ids(cell)[-1]


@pytest.mark.heavy
def test_a_call_waits_over_a_restart_for_the_pm_and_is_made_once(cell: Cell) -> None:
    """Asked once, nothing ticked, no model call until the PM answers, whatever the clock says; then all is ticked."""
    id = waits(cell)
    told = results(cell.model.requests[1])[0]
    assert told.is_error
    assert id in told.content
    assert "end your turn" in told.content
    assert (made(cell), cell.open()) == (0, ["make it"])
    assert "it leaves a file" in cell.page()
    assert json.dumps({"command": TOUCH}) in cell.page()

    def story() -> Story:
        yield TICK
        yield TICK
        assert len(cell.model.requests) == 2, "neither a start nor a tick asks anybody"
        cell.tell(f"Approve {id}")
        yield AGAIN

    cell.model.replies += [says("It is made.")]
    lives(cell, story(), policy=ASKS, limits=limits(work_seconds=0.05))
    assert cell.reported("It is made.")
    before, after = cell.model.requests[1:]
    assert after.messages[: len(before.messages)] == before.messages, "the same conversation goes on"
    [made_now] = results(after)
    assert (after.run, made_now.is_error) == (before.run, False)
    assert (made(cell), asked_ids(cell), cell.open()) == (1, [id], [])
    assert flags(cell) == [["rule 1", f"asked {id}"], ["rule 1", f"approved {id}"]]


@pytest.mark.heavy
@pytest.mark.parametrize("answered", [False, True])
def test_other_work_that_ends_leaves_what_waits_as_it_is(cell: Cell, answered: bool) -> None:
    """Neither does it begin again, nor is its question closed, nor its answer ticked with the other work."""
    id = waits(cell)

    def other(request: Request) -> Any:
        if answered:
            cell.tell(f"approve {id}")
        return says("Done.")

    def story() -> Story:
        cell.tell("something else")
        yield AGAIN
        assert cell.reported("done: something else")
        yield TICK

    cell.model.replies += [calls(bash(TOUCH)), says("I wait still."), other, says("It is made.")]
    lives(cell, story(), policy=ASKS, limits=limits(work_seconds=0.05))
    assert asked_ids(cell) == [id]
    assert (made(cell), cell.open()) == ((1, []) if answered else (0, ["make it"]))
    assert len(cell.model.requests) == (6 if answered else 5)


def test_an_answer_reaches_the_run_that_still_works(cell: Cell) -> None:
    """It is told between two steps."""

    def answer(request: Request) -> Any:
        cell.tell(f"approve {asked_ids(cell)[0]}")
        return calls(bash("true"))

    cell.tell("make it")
    cell.model.replies += [calls(bash(TOUCH)), answer, says("It is made.")]
    one_day(cell, policy=ASKS)
    assert "approves call" in str(cell.model.requests[-1].messages)
    assert not cell.reported("stopped (")
    assert (made(cell), cell.open()) == (1, [])


def test_a_run_that_is_cut_short_keeps_its_questions(cell: Cell) -> None:
    """So that no other work ticks the answers."""

    def ends(request: Request) -> Any:
        raise Interrupted

    cell.tell("make it")
    context = cell.context(Canned([calls(bash(TOUCH)), ends]), policy=ASKS)
    assert one_run(context).reason is StopReason.INTERRUPTED
    [wait] = context.state.memory.waits.values()
    assert wait.asks == tuple(asked_ids(cell))


def test_an_answer_alone_is_no_work(cell: Cell) -> None:
    """No model is asked for it; with the next run it is ticked."""

    def later() -> None:
        assert cell.model.requests == []
        cell.tell("do it")

    one_day(cell, lambda: cell.tell("deny 0123abcd0123abcd"), later, policy=ASKS)
    assert cell.reported("done: do it")
    assert cell.open() == []


def test_the_runners_own_first_read_asks_nobody(cell: Cell) -> None:
    """Under the strictest policy the model still learns where it is, and can do nothing else."""
    cell.tell("do it")
    model = Canned([calls(bash("touch made-1")), says("I may do nothing.")])
    context = cell.context(model, policy=Policy("deny"))

    assert one_run(context).reason is StopReason.COMPLETED

    opened, told = results(model.requests[0])[0], results(model.requests[1])[0]
    assert not opened.is_error
    assert told.content.startswith("bash: the PM's policy denies this (policy.default)")
    assert made(cell) == 0


def approvals(cell: Cell) -> Approvals:
    context = cell.context()
    seen = context.page.look()
    return Approvals(context, seen.open[0].id if seen.open else "TASK-001", seen)


def ask(it: Approvals, command: str = "x") -> Verdict:
    return it.ask("bash", {"command": command}, "rule 1")


def test_each_answer_is_told_once(cell: Cell) -> None:
    """Also when another call was asked about meanwhile."""
    it = approvals(cell)
    ask(it)
    [id] = asked_ids(cell)
    cell.tell(f"approve {id}")
    ask(it, "y")

    seen = cell.context().page.look()
    assert f"approves call {id}" in it.news(seen)
    assert (it.news(seen), commands(it), commands(it)) == ("", ["x"], [])

    for other in asked_ids(cell):
        cell.tell(f"deny {other}: no")
    assert it.news(cell.context().page.look()).count(": no") == 1, "the first is answered"
    assert commands(it) == ["y"]
    assert {ask(it, command).status for command in "xy"} == {"denied"}
    denied = ask(it, "y")
    assert (denied.flags, ": no. " in denied.words) == ((f"denied {asked_ids(cell)[-1]}",), True)
    assert not it.awaits()


def commands(it: Approvals) -> list[str]:
    """Of what is made now in the model's name."""
    made = it.makes()
    return [use.input["command"] for use in made.content if isinstance(use, ToolUse)] if made else []


def test_to_a_model_without_tools_the_answer_is_words(cell: Cell) -> None:
    """It makes the call itself, or goes without: what is answered is waited for no longer."""
    it = approvals(cell)
    it.makes_calls = False
    ask(it)
    ask(it, "y")
    first, second = asked_ids(cell)
    cell.tell(f"approve {first}")
    cell.tell(f"deny {second}: no")
    said = it.news(cell.context().page.look())
    assert "make it again" in said
    assert f"The PM denies call {second}: no" in said
    assert (it.makes(), it.asks) == (None, ())


def asked(it: Approvals, **given: Any) -> tuple[Acting, Acted]:
    """As a run records a call that the PM is asked about."""
    call = ToolCall("1", "bash", given)
    result = ToolResult.err("awaiting_approval", "")._replace(status=AWAITING, policy_flags=ask(it).flags)
    return Acting("1.1", "bash", args_hash(given)), Acted.of("1.1", call, result, 0.0)


@pytest.mark.parametrize("given", [{"command": "x"}, {"command": "x", "timeout": None}])
@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_goes_on_makes_the_answered_call_unless_it_was_begun(
    cell: Cell, given: dict[str, Any], begun: bool
) -> None:
    """What a crash cut short is the model's to look at. Models say null for what they leave out."""
    lines = asked(approvals(cell), **given)
    [id] = asked_ids(cell)
    cell.tell(f"approve {id}")
    it = approvals(cell)
    it.recall([*lines, lines[0]] if begun else lines)
    assert it.asks == (id,)
    it.news(cell.context().page.look())
    assert (commands(it), it.awaits()) == ([] if begun else ["x"], False)
    assert ask(it).allowed
    assert not it.awaits()


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
