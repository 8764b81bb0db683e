"""The loop as a machine: whatever is asked for and whatever comes of it, a run goes from state to state as it may, and
ends for one reason."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import event, given

from infra.cell.actions import ERROR_TYPES, STATUSES, AssistantAction, Respond
from infra.cell.loop.loop import TRANSITIONS, RunContext, Task, TaskContext, plan, step
from infra.cell.loop.progress import DENIED_TO_END, IDLE_TO_END
from infra.cell.loop.record import Acted, Entered, Line
from infra.cell.run_states import RunState, StopReason
from infra.shared.conversation import Completion
from tests.cell.loop.lives import BOTH, CONFIG, NEWS, WAYS, Plan, World, by_tools, lived
from tests.cell.loop.records import OPENING, as_lines
from tests.cell.loop.replies import says
from tests.shared.rows import each_row


def states(seen: list[Line]) -> list[RunState]:
    return [each.state for each in seen if isinstance(each, Entered)]


@given(WAYS, NEWS)
def test_a_run_ends_once_and_goes_only_where_it_may(way: tuple[str, list[Completion]], news: list[str | None]) -> None:
    """From INIT to STOP or ERROR; each result is one of the five errors or none."""
    acts, replies = way
    result, seen = lived(acts, Plan(replies), news)
    event(result.reason.value)

    passed = states(seen)
    assert passed[0] is RunState.INIT
    assert passed[-1] is (RunState.ERROR if result.reason is StopReason.MODEL_UNAVAILABLE else RunState.STOP)
    assert all(after in TRANSITIONS[before] for before, after in itertools.pairwise(passed))
    assert (RunState.RESPOND in passed) is (passed[-2] is RunState.RESPOND)
    assert result.steps <= CONFIG.max_steps
    for each in seen:
        if isinstance(each, Acted):
            assert each.status in STATUSES
            assert each.result.ok is not bool(each.hint)
            assert each.result.ok is (each.error_code not in ERROR_TYPES)


@each_row(
    "whats, reason",
    [
        (["a", "b", "a"], StopReason.MODEL_UNAVAILABLE),
        (["forbidden"] * DENIED_TO_END, StopReason.POLICY_DENIED),
        (["a"] * (1 + IDLE_TO_END), StopReason.NO_OP_LOOP),
        (["fail fail fail"] * 4, StopReason.MAX_FAILURES),
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
    for acts, reply in BOTH:
        assert lived(acts, Plan([reply(what.split()) for what in whats]), [])[0].reason is reason, acts


@pytest.mark.heavy
def test_ten_megabytes_of_arguments_are_no_end() -> None:
    """Carried out or refused, for both ways; the record holds them."""
    for acts, reply in BOTH:
        long = reply(["x" * 10_000_000])
        replies = [long, long, says("Done, and this is the report."), says("[]")]
        result, seen = lived(acts, Plan(replies), [])
        assert result.reason is StopReason.COMPLETED
        assert len([each for each in as_lines(seen, acts) if isinstance(each, Acted)]) == 2


def test_a_run_is_plan_and_step_in_turn() -> None:
    """Each alone: the model's reply becomes an action, and an action is carried out whoever made it."""
    world = World()
    context = TaskContext(Plan([by_tools(["a"]), says("Done.")]), world.box.call, monotonic=lambda: world.now)
    run_ctx = RunContext(Task(OPENING), CONFIG, context)
    action: AssistantAction = plan(run_ctx)
    assert not isinstance(action, Respond)
    assert [(call.name, call.args) for call in action.calls] == [("bash", {"command": "a"})]
    assert step(run_ctx, action) is None
    assert world.did == ["a"]
    assert run_ctx.state is RunState.OBSERVE
    assert plan(run_ctx) == Respond("Done.")
    assert step(run_ctx, Respond("Done.")) is StopReason.COMPLETED
    assert (run_ctx.state, run_ctx.steps, run_ctx.text) == (RunState.RESPOND, 2, "Done.")
