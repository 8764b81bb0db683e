"""A run that is replayed by the version that ran it goes as it went; by another, what differs is told."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.loop import Event, Task, TaskContext, run_task
from infra.cell.loop.player import Player
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.recorded import Recorded, recorded
from infra.cell.loop.replay import replay
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Toolbox, ToolError
from infra.shared.conversation import MAX_TOKENS, REFUSAL, Completion, Request, ToolSpec, ToolUse, to_plain
from tests.cell.loop.records import MOST_STEPS, OPENING, as_lines
from tests.cell.loop.replies import calls, says
from tests.cell.tools.made import args_of, tool
from tests.shared.rows import each_row

TOOLS = {"act": args_of("act", what=str)}
NARROWER = {"act": args_of("act", name=str)}


def box() -> Toolbox:
    """An act that fails, hands over, is interrupted, or does as it is told."""

    def act(given: Any, seconds: float) -> ToolResult:
        match given.what:
            case "fail":
                raise ToolError("it cannot be done")
            case "interrupt":
                raise Interrupted
        return ToolResult(f"did {given.what}", hands_over=given.what == "leave")

    return Toolbox([tool("act", act, what=str)])


class Plan:
    """A model that has made up its mind, and fails when it has no more to say."""

    def __init__(self, replies: list[Completion]) -> None:
        self._replies = iter(replies)

    def __call__(self, request: Request) -> Completion:
        for reply in self._replies:
            return reply
        raise ModelFailure("unavailable", "nobody is there")


WHATS = st.sampled_from(["a", "b", "fail", "a", "b", "leave", "interrupt"])
USES = (
    st.builds(lambda what: ("act", {"what": what}), WHATS)
    | st.just(("act", {"what": 7}))
    | st.just(("other", {"what": "a"}))
)
REPLIES = (
    st.lists(USES, min_size=1, max_size=3).map(
        lambda uses: calls(*(ToolUse(f"c{at}", name, given) for at, (name, given) in enumerate(uses)))
    )
    | st.just(calls(ToolUse("1", "act", {"what": "again"})))
    | st.just(calls(ToolUse("1", "act", {"what": "a"}), ToolUse("1", "act", {"what": "b"})))
    | st.sampled_from([says("Cut.", MAX_TOKENS), says("No.", REFUSAL), says("Done.")])
)
PLANS = st.lists(REPLIES, max_size=8) | st.just([calls(ToolUse("1", "act", {"what": "again"}))] * 40)
STEERS = st.lists(st.none() | st.just("Look out."), max_size=9)


def lived(plan: list[Completion], words: list[str | None], steps: int = MOST_STEPS) -> list[dict[str, Any]]:
    """The transcript of a run."""
    told = iter(words)
    record: list[Event] = []
    context = TaskContext(Plan(plan), box().call, lambda: next(told, None), record.append)
    outcome = run_task(Task(OPENING), RunConfig(steps, 100.0), context)
    return [*as_lines(record), {"at": "", "kind": "ended", "run_id": "run-1", "end": outcome.reason.value}]


@given(PLANS, STEERS)
def test_what_is_replayed_goes_as_it_went(plan: list[Completion], words: list[str | None]) -> None:
    """Event for event, whatever the model said and however it ended."""
    run = recorded(lived(plan, words))
    found = replay(run, TOOLS)
    assert found.differences == ()
    assert found.end == run.end or run.end in (StopReason.INTERRUPTED.value, StopReason.MODEL_UNAVAILABLE.value)


@given(PLANS, STEERS, st.data())
def test_so_does_what_was_cut_short_and_gone_on_with(
    plan: list[Completion], words: list[str | None], data: st.DataObject
) -> None:
    """The record of both processes is the record of one run; and so is the first part of it alone."""
    lines = lived(plan, words)
    lines = lines[: data.draw(st.integers(1, len(lines) - 1), label="lines on record")]
    before = recorded(lines)
    assert replay(before, TOOLS).differences == ()

    record: list[Event] = []
    more = Plan([calls(ToolUse("9", "act", {"what": "b"})), says("Done.")])
    player = Player(before, TaskContext(more, box().call, record=record.append), "A new process.")
    outcome = run_task(Task(OPENING), RunConfig(MOST_STEPS, 100.0), player.context)
    ended = {"at": "", "kind": "ended", "run_id": "run-1", "end": outcome.reason.value}
    resumed = {"at": "", "kind": "resumed", "run_id": "run-1"}
    both = recorded([*lines, resumed, *as_lines(record)[1:], ended])
    assert replay(both, TOOLS).differences == ()


def run_of_three() -> list[dict[str, Any]]:
    """Three steps and words after the first."""
    uses = [ToolUse("1", "act", {"what": what}) for what in ("a", "fail")]
    return lived([*map(calls, uses), says("Done.")], ["Look out."])


def changed(kind: str, **facts: Any) -> Recorded:
    lines = run_of_three()
    line = next(line for line in lines if line["kind"] == kind)
    line |= facts
    return recorded(lines)


def test_what_goes_another_way_is_told() -> None:
    """Where, what was on record, and what it is now."""
    assert replay(recorded(run_of_three()), TOOLS).differences == (), "the control"

    other_call = {"id": "1", "name": "act", "input": {"what": "x"}, "type": "tool_use"}
    [call] = replay(changed("acted", call=other_call), TOOLS).differences
    assert (call.where, "'x'" in call.recorded, "'a'" in call.replayed) == ("1.1", True, True)

    [words] = replay(changed("told", text="Go on."), TOOLS).differences
    assert words == ("1", "Go on.", "Look out.")

    [end] = replay(changed("ended", end="no_op_loop"), TOOLS).differences
    assert end == ("end", "no_op_loop", "completed")

    [states] = replay(changed("answered", states=["INIT", "PLAN", "RESPOND"]), TOOLS).differences
    assert states.where == "states"

    assert [each.where for each in replay(recorded(run_of_three()), NARROWER).differences] == ["1.1", "2.1"]
    assert "no such tool: 'act'" in replay(recorded(run_of_three()), {}).differences[0].replayed


def test_calls_of_a_tool_that_the_agent_gave_itself_are_taken_to_fit() -> None:
    """The run was opened with it; what this version has under that name counts more."""
    lines = run_of_three()
    lines[0] |= to_plain(OPENING._replace(tools=(ToolSpec("act", "", {}),)))
    assert replay(recorded(lines)).differences == ()
    assert [each.where for each in replay(recorded(lines), NARROWER).differences] == ["1.1", "2.1"]


@each_row("steps", [1, 2])
def test_how_many_steps_it_was_allowed_is_on_record(steps: int) -> None:
    """So a run that used them up is replayed to that end."""
    lines = lived([calls(ToolUse("1", "act", {"what": "a"}))] * 5, [], steps)
    lines[0]["most_steps"] = steps
    assert replay(recorded(lines), TOOLS) == (steps * 3, StopReason.MAX_STEPS.value, ())
