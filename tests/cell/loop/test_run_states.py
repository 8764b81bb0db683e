"""The loop as a machine: whatever is asked for and whatever comes of it, a run goes from state to state as it may, ends
for one reason, and its record is played again to the same."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from infra.cell.actions import ERROR_TYPES, STATUSES, AssistantAction, Respond, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.loop import (
    TRANSITIONS,
    Acted,
    Entered,
    Event,
    RunContext,
    RunResult,
    Task,
    TaskContext,
    plan,
    run_task,
    step,
)
from infra.cell.loop.player import Player
from infra.cell.loop.progress import DENIED_TO_END, IDLE_TO_END, RunConfig
from infra.cell.loop.recorded import OPENED, recorded
from infra.cell.loop.replay import OUTSIDE, replay
from infra.cell.run_states import RunState, StopReason
from infra.cell.tools.tool import Tool, Toolbox, ToolError, Verdict
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import MAX_TOKENS, REFUSAL, Completion, Request, ToolUse
from tests.cell.loop.records import OPENING, as_lines
from tests.cell.loop.replies import calls, says
from tests.cell.tools.made import tool
from tests.shared.rows import each_row

WHATS = ("a", "b", "fail", "exit1", "bug", "leave", "interrupt", "forbidden", "asked", "late")
FAILURES = StopReason.MAX_FAILURES
CONFIG = RunConfig(max_steps=12, max_wall_time=100.0)


class World:
    """A tool that does what it is told, a policy, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits = False
        self.box = Toolbox([tool("bash", self._act, command=str)], self._gate)

    def _act(self, given: Any, seconds: float) -> ToolResult:
        self.now += 1.0
        match given.command:
            case "fail":
                raise ToolError("it cannot be done")
            case "bug":
                raise ZeroDivisionError
            case "interrupt":
                raise Interrupted
            case "late":
                self.now += 60.0
        ended = 1 if given.command == "exit1" else 0
        return ToolResult(f"did {given.command}", facts={"exit": ended}, hands_over=given.command == "leave")

    def _gate(self, tool: Tool, given: Mapping[str, Any]) -> Verdict:
        asked = given["command"] == "asked"
        self.waits = self.waits or asked
        status = "awaiting_approval" if asked else "denied"
        return Verdict(given["command"] not in ("forbidden", "asked"), "no", status, (status,))


class Plan:
    """Says what it has to say; then nobody is there."""

    def __init__(self, replies: list[Completion]) -> None:
        self._replies = iter(replies)

    def __call__(self, request: Request) -> Completion:
        for reply in self._replies:
            return reply
        raise ModelFailure("unavailable", "nobody is there")


def by_tools(whats: list[str]) -> Completion:
    return calls(*(ToolUse(str(at), "bash", {"command": what}) for at, what in enumerate(whats)))


def by_text(whats: list[str]) -> Completion:
    return says("[" + ",".join(f'{{"type": "shell", "command": "{what}"}}' for what in whats) + "]")


ACTS = st.lists(st.sampled_from(WHATS), min_size=1, max_size=3)
SOME = st.lists(st.sampled_from(["a", "b", "fail", "exit1", "bug", "forbidden"]), min_size=1, max_size=3)
WORDS = st.sampled_from([says("Done."), says("No.", REFUSAL), says("Cut", MAX_TOKENS), says(""), says("[]")])


def plans(reply: Any) -> st.SearchStrategy[list[Completion]]:
    """Many kinds of acts, a few of them over and over, or one for ever; with words between them or at the end."""
    return (
        st.lists(ACTS.map(reply) | WORDS, max_size=12)
        | st.tuples(st.lists(SOME.map(reply), max_size=14), WORDS).map(lambda both: [*both[0], both[1]])
        | SOME.map(lambda whats: [reply(whats)] * 15)
        | st.tuples(SOME, st.sampled_from(["leave", "interrupt", "late"])).map(
            lambda both: [reply([*both[0], both[1]])]
        )
    )


WAYS = st.one_of(st.tuples(st.just(TOOLS), plans(by_tools)), st.tuples(st.just(OPERATIONS), plans(by_text)))


def lived(acts: str, replies: list[Completion], news: list[str | None]) -> tuple[RunResult, list[Event]]:
    world, seen, told = World(), list[Event](), iter(news)
    context = TaskContext(
        *(Plan(replies), world.box.call, lambda: next(told, None), seen.append),
        awaits=lambda: world.waits,
        monotonic=lambda: world.now,
    )
    return run_task(Task(OPENING, acts), CONFIG, context), seen


def states(seen: list[Event]) -> list[RunState]:
    return [each.state for each in seen if isinstance(each, Entered)]


@given(WAYS, st.lists(st.none() | st.just("The PM says: go on."), max_size=6))
def test_a_run_ends_once_and_goes_only_where_it_may(way: tuple[str, list[Completion]], news: list[str | None]) -> None:
    """From INIT to STOP or ERROR; each result is one of the five errors or none; the record replays to the same."""
    acts, replies = way
    result, seen = lived(acts, replies, news)
    event(result.reason.value)

    passed = states(seen)
    assert passed[0] is RunState.INIT
    assert passed[-1] is (RunState.ERROR if result.reason is StopReason.MODEL_UNAVAILABLE else RunState.STOP)
    assert all(after in TRANSITIONS[before] for before, after in itertools.pairwise(passed))
    assert (RunState.RESPOND in passed) is (passed[-2] is RunState.RESPOND)
    assert result.steps <= CONFIG.max_steps
    for each in seen:
        if isinstance(each, Acted):
            assert each.result.status in STATUSES
            assert each.result.ok is not bool(each.result.hint)
            assert each.result.ok is (each.result.error_code not in ERROR_TYPES)

    run = recorded([*lines_of(acts, seen), ended(result, passed[-1])])
    mine = replay(run)
    assert mine.differences == ()
    assert mine.end == result.reason.value or result.reason in (*OUTSIDE, StopReason.AWAITING_APPROVAL)


def lines_of(acts: str, seen: list[Event]) -> list[dict[str, Any]]:
    """The record so far."""
    lines = as_lines(seen)
    lines[0] |= {"most_steps": CONFIG.max_steps, "kind": OPENED[acts]}
    return lines


def ended(result: RunResult, state: RunState) -> dict[str, Any]:
    return {"at": "", "kind": "ended", "run_id": "run-1", "end": result.reason.value, "states": [state.value]}


@each_row(
    "whats, reason",
    [
        (["a", "b", "a"], StopReason.MODEL_UNAVAILABLE),
        (["forbidden"] * DENIED_TO_END, StopReason.POLICY_DENIED),
        (["a"] * (1 + IDLE_TO_END), StopReason.NO_OP_LOOP),
        (["fail fail fail"] * 4, FAILURES),
        (
            ["exit1 fail bug", "bug exit1 forbidden fail", "fail fail exit1", "forbidden bug bug bug"],
            StopReason.MAX_FAILURES,
        ),
        (["fail fail fail a"] * 4, StopReason.MODEL_UNAVAILABLE),
        (["forbidden", "forbidden", "a", "forbidden"], StopReason.MODEL_UNAVAILABLE),
        ([*["forbidden"] * 2, "asked", *["forbidden"] * 3], StopReason.AWAITING_APPROVAL),
        (["late", "late"], StopReason.MAX_WALL_TIME),
        ([f"x{nth}" for nth in range(12)], StopReason.MAX_STEPS),
        (["leave"], StopReason.HANDED_OVER),
        (["interrupt"], StopReason.INTERRUPTED),
    ],
)
def test_why_a_run_ends(whats: list[str], reason: StopReason) -> None:
    """For both ways to ask for an act, by the same functions."""
    for acts, reply in ((TOOLS, by_tools), (OPERATIONS, by_text)):
        assert lived(acts, [reply(what.split()) for what in whats], [])[0].reason is reason, acts


@pytest.mark.heavy
def test_ten_megabytes_of_arguments_are_no_end() -> None:
    """Carried out or refused, for both ways; the record holds them."""
    for acts, reply in ((TOOLS, by_tools), (OPERATIONS, by_text)):
        long = reply(["x" * 10_000_000])
        result, seen = lived(acts, [long, long, says("Done, and this is the report."), says("[]")], [])
        assert result.reason is StopReason.COMPLETED
        assert len(as_lines(seen)) > len([each for each in seen if isinstance(each, Acted)]) == 2


def test_a_run_is_plan_and_step_in_turn() -> None:
    """Each alone: the model's reply becomes an action, and an action is carried out whoever made it."""
    world = World()
    context = TaskContext(Plan([by_tools(["a"]), says("Done.")]), world.box.call, monotonic=lambda: world.now)
    run_ctx = RunContext(Task(OPENING), CONFIG, context)
    action: AssistantAction = plan(run_ctx)
    assert not isinstance(action, Respond)
    assert [(call.name, call.args) for call in action.calls] == [("bash", {"command": "a"})]
    done = step(run_ctx, action)
    assert (done.reason, [result.payload for result in done.results]) == (None, ["did a"])
    assert run_ctx.state is RunState.OBSERVE
    assert plan(run_ctx) == Respond("Done.")
    assert step(run_ctx, Respond("Done.")).reason is StopReason.COMPLETED
    assert (run_ctx.state, run_ctx.steps, run_ctx.text) == (RunState.RESPOND, 2, "Done.")


@given(WAYS, st.data())
def test_a_run_that_is_resumed_goes_on_from_state_to_state(
    way: tuple[str, list[Completion]], data: st.DataObject
) -> None:
    """The record of both processes tells of one way through the states."""
    acts, replies = way
    _, seen = lived(acts, replies, [])
    lines = lines_of(acts, seen)
    lines = lines[: data.draw(st.integers(1, len(lines)), label="lines on record")]
    world, more = World(), list[Event]()
    live = TaskContext(Plan([says("Done."), says("Done.")]), world.box.call, record=more.append)
    result = run_task(Task(OPENING, acts), CONFIG, Player(recorded(lines), live).context)
    resumed = {"at": "", "kind": "resumed", "run_id": "run-1"}
    both = recorded([*lines, resumed, *as_lines(more)[1:], ended(result, states(more)[-1])])
    passed = [RunState(state) for state in both.states if state != RunState.STOP.value]
    assert all(after in TRANSITIONS[before] for before, after in itertools.pairwise(passed))
    assert [each for each in replay(both).differences if each.where == "states"] == []
