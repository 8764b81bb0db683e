"""Calls that the PM is asked about: on the page, over restarts, answered by a push; all but the model is real."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from msgspec.structs import replace

from infra.cell.actions import AWAITING, ToolCall, ToolResult
from infra.cell.doors import Keep
from infra.cell.loop.record import Acted, RunRecord
from infra.cell.run.approvals import ask, waiting
from infra.cell.run.news import RunNews
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Verdict
from infra.cell.waits import Wait
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import Request, ToolUse
from infra.shared.policy import Policy, Rule
from infra.shared.requests import Ask, QuestionState
from tests.cell.cell import Cell, limits, read, write
from tests.cell.life.days import AGAIN, TICK, Days, Story, lives, one_day, one_run
from tests.cell.loop.replies import Canned, bash, calls, results, says
from tests.cell.run.test_news import news

ASKS = Policy(rules=(Rule("ask", commands=("touch *",), why="it leaves a file"),))
TOUCH = "touch made-$(ls | grep -c ^made-)"
"""Each time another file, so that files count the times it was run."""


def asked_ids(cell: Cell) -> list[str]:
    return [found for report in cell.reports() for found in re.findall(r"approval wanted \[(\w{16})\]: bash\n", report)]


def made(cell: Cell) -> int:
    return sum(name.startswith("made-") for name in os.listdir(cell.checkout))


def flags(cell: Cell) -> list[tuple[str, ...]]:
    """What the policy had to say of each call that it spoke of."""
    return [line.policy_flags for line in cell.record() if isinstance(line, Acted) and line.policy_flags]


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
    assert flags(cell) == [("rule 1", f"asked {id}"), ("rule 1", f"approved {id}")]


@pytest.mark.heavy
@pytest.mark.parametrize("answered", [False, True])
def test_other_work_that_ends_leaves_what_waits_as_it_is(cell: Cell, answered: bool) -> None:
    """Neither does what the PM pushes begin it again, nor is its question closed, nor its answer ticked with the other
    work."""
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

    cell.model.replies += [other, says("It is made.")]
    lives(cell, story(), policy=ASKS, limits=limits(work_seconds=0.05))
    assert asked_ids(cell) == [id]
    assert (made(cell), cell.open()) == ((1, []) if answered else (0, ["make it"]))
    assert len(cell.model.requests) == (4 if answered else 3)


class DiesBehindQuestion(Keep):
    def question(self, question: Ask) -> QuestionState:
        super().question(question)
        raise KeyboardInterrupt


def test_a_question_that_a_kill_kept_from_the_record_is_the_same_when_it_is_asked_again(cell: Cell) -> None:
    """The next runner goes on with the run, and the model looks before it makes the call again."""
    cell.tell("make it")
    context = cell.context(Canned([calls(bash(TOUCH))]), policy=ASKS)
    with pytest.raises(KeyboardInterrupt):
        one_run(context._replace(keep=DiesBehindQuestion(cell.places.git_socket)))
    model = Canned([calls(bash(TOUCH)), says("I wait.")])
    assert one_run(cell.context(model, policy=ASKS)).reason is StopReason.AWAITING_APPROVAL
    assert "how far it came is unknown" in results(model.requests[0])[0].content
    [wait] = cell.context().state.memory.waits.values()
    assert wait.asks == tuple(asked_ids(cell))


@pytest.mark.heavy
def test_an_answer_that_came_while_a_run_was_killed_at_its_end_is_acted_upon(cell: Cell) -> None:
    """The run ends again as its record says, and goes on at once."""
    id = waits(cell)
    state = cell.context().state
    [(work, wait)] = state.memory.waits.items()
    record = f"{cell.checkout}/logs/transcripts/{wait.run}.jsonl"
    *lines, ended = read(record).splitlines(keepends=True)
    assert json.loads(ended)["kind"] == "ended"
    write(record, "".join(lines))
    state.waits_for(work, Wait(run=wait.run, asks=wait.asks))
    cell.tell(f"approve {id}")

    cell.model.replies += [says("It is made.")]
    one_day(cell, policy=ASKS)
    assert (made(cell), cell.open()) == (1, [])


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


def put(cell: Cell, **given: Any) -> Verdict:
    """The PM is asked about `bash` with these arguments."""
    return ask(cell.context(), "TASK-001", "bash", given, "rule 1")


def asked(cell: Cell, **given: Any) -> Acted:
    """As a run records a call that the PM is asked about. Models say null for what they leave out."""
    result = ToolResult.err("awaiting_approval", "")._replace(
        status=AWAITING, policy_flags=put(cell, command=given["command"]).flags
    )
    return Acted.of("1.1", ToolCall("1", "bash", given), result, 0.0)


def commands(told: RunNews) -> list[str]:
    """Of what is made now in the model's name."""
    made = told.makes()
    return [use.input["command"] for use in made.content if isinstance(use, ToolUse)] if made else []


def test_each_answer_is_told_once_and_the_call_made(cell: Cell) -> None:
    """A model without tools makes it itself, or goes without: what is answered is waited for no longer."""
    cell.tell("make it")
    calls = [asked(cell, command="x", timeout=None), asked(cell, command="y"), asked(cell, command="z")]
    first, second, third = asked_ids(cell)
    record = RunRecord("/nowhere", "a run", calls)
    context = cell.context()
    tools, operations = (news(context, Days(cell, context, iter(())), record, acts) for acts in (TOOLS, OPERATIONS))
    assert {*tools.asks()} == {*operations.asks()} == {first, second, third}
    cell.tell(f"approve {first}")
    cell.tell(f"deny {second}: no")

    for told, then in ((tools, "it is made now"), (operations, "make it again")):
        said = told.words().pm
        assert f"The PM approves call {first}: {then}" in said
        assert f"The PM denies call {second}: no" in said
        assert told.asks() == (third,)
    assert (commands(tools), commands(tools), commands(operations)) == (["x", "y"], [], [])
    cell.tell(f"deny {third}")
    for told in (tools, operations):
        assert first not in told.words().pm
        assert told.asks() == ()


def test_what_is_asked_about_again_waits_again(cell: Cell) -> None:
    """The PM struck the answer before the call was made."""
    cell.tell("make it")
    call = asked(cell, command="x")
    [id] = asked_ids(cell)
    record = RunRecord("/nowhere", "a run", [call])
    told = news(context := cell.context(), Days(cell, context, iter(())), record)
    cell.tell(f"approve {id}")
    assert id in told.words().pm
    record.lines.append(replace(call, step_id="2.1"))
    assert told.asks() == (id,)


def test_what_a_crash_cut_short_and_what_was_made_wait_no_longer(cell: Cell) -> None:
    """The model looks at the first; the record tells of the second by the same arguments, or by the question's id."""
    call = asked(cell, command="x", timeout=None)
    [id] = asked_ids(cell)
    assert waiting([call]) == {id: call}
    cut = Acted.of("2.1", call.call, ToolResult.err("cut_short", ""), 0.0)
    made = Acted.of(
        "2.1", ToolCall("1", "bash", {"command": "x"}), ToolResult("", policy_flags=(f"approved {id}",)), 0.0
    )
    assert waiting([call, cut]) == waiting([call, made]) == {}
    assert waiting([call, made, call]) == {id: call}


def test_a_question_that_could_not_be_asked_is_asked_once_when_it_can(cell: Cell) -> None:
    """What keeps the keep from asking is the call's error; nothing waits for it."""
    os.rename(cell.places.remote, f"{cell.places.remote}.away")
    with pytest.raises(OSError, match="could not be asked"):
        put(cell, command="x")
    os.rename(f"{cell.places.remote}.away", cell.places.remote)
    assert put(cell, command="x").status == put(cell, command="x").status == AWAITING
    [id] = asked_ids(cell)
    cell.tell(f"deny {id}: no")
    denied = put(cell, command="x")
    assert (denied.flags, ": no. " in denied.words) == ((f"denied {id}",), True)


def test_a_call_that_cannot_be_asked_about_is_denied(cell: Cell) -> None:
    """It is too long for one question; the model is told what to do."""
    told = put(cell, command="x" * 300_000)
    assert (told.allowed, told.status, told.flags) == (False, "denied", ("denied",))
    assert "cannot be asked" in told.words
    assert asked_ids(cell) == []
