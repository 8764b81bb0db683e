"""The bounded loop ends for one of its reasons, and runs nothing that was not asked for properly."""

from __future__ import annotations

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop import loop, ways
from infra.cell.loop.loop import RunResult
from infra.cell.loop.progress import DENIED_TO_END, IDLE, IDLE_TO_END, IDLE_TO_TELL
from infra.cell.loop.record import Acted, Acting, Answered, Entered, Told, args_hash
from infra.cell.loop.ways import News
from infra.cell.run_states import RunState, StopReason
from infra.shared.boot import TOOLS
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
    REFUSAL,
    TOOL_USE,
    Message,
    Text,
    ToolUse,
)
from infra.shared.conversation import ToolResult as Answer
from tests.cell.loop.lives import BOTH, NOBODY, Plan, World, by_tools, lived
from tests.cell.loop.records import MOST_STEPS, OPENING
from tests.cell.loop.replies import Canned, Reply, calls, results, says, texts
from tests.shared.rows import each_row

CUT, WHOLE, DONE, CALL = says("", MAX_TOKENS), by_tools(["a"]), says("Done."), ToolUse("0", "bash", {"command": "a"})


def test_calls_are_run_in_order_and_answered_in_one_message() -> None:
    """Several calls in one reply: each has its result, under its own id, in the order of the calls."""
    reply, world = by_tools(["a", "b"]), World()
    model = Canned([reply, says("Done.")])

    assert lived(TOOLS, model, [], world)[0].reason is StopReason.COMPLETED

    assert world.did == ["a", "b"]
    assert results(model.requests[1]) == [Answer(id, f"did {what}\n[exit status 0]") for id, what in ("0a", "1b")]
    assert model.requests[1].messages[:-1] == (*OPENING.messages, Message("assistant", reply.content))
    assert model.requests[1]._replace(messages=OPENING.messages) == OPENING, "or the provider's cache is lost"


@pytest.mark.fault("F71")
@each_row("reason, did", [(END_TURN, []), (MAX_TOKENS, []), (REFUSAL, []), (TOOL_USE, ["a"])])
def test_calls_are_run_only_when_the_reply_ended_for_them(reason: str, did: list[str]) -> None:
    """A call that was cut looks whole: only the stop reason tells."""
    lived(TOOLS, Canned([WHOLE._replace(stop_reason=reason), says("Then without.")]), [], world := World())
    assert world.did == did


@pytest.mark.fault("F76")
@each_row(
    "replies, result",
    [
        ([DONE], RunResult(StopReason.COMPLETED, "Done.", 1)),
        ([], RunResult(StopReason.MODEL_UNAVAILABLE, "", 0, NOBODY)),
        ([says("No.", REFUSAL)], RunResult(StopReason.REFUSAL, "No.", 1)),
        ([calls(ToolUse("1", "nothing", {})), DONE], RunResult(StopReason.COMPLETED, "Done.", 2)),
        ([CUT] * 4, RunResult(StopReason.MAX_TOKENS, "", 4)),
        ([CUT, CUT, CUT, WHOLE, CUT, CUT, DONE], RunResult(StopReason.COMPLETED, "Done.", 7)),
    ],
)
def test_how_replies_end_a_run(replies: list[Reply], result: RunResult) -> None:
    """By words, by none, by a refusal; a failed call does not, and a cut reply does not but four times in a row."""
    assert lived(TOOLS, Plan(replies), [])[0] == result


def test_a_cut_reply_is_answered_with_advice() -> None:
    """The cut call stays out of the conversation, since no result can answer it."""
    model = Canned([calls(CALL, text="I will", stop_reason=MAX_TOKENS), says("In pieces.")])

    assert lived(TOOLS, model, [])[0] == RunResult(StopReason.COMPLETED, "In pieces.", 2)

    assert model.requests[1].messages[-2] == Message("assistant", (Text("I will"),))
    assert texts(model.requests[1]) == [ways.CUT]


@pytest.mark.fault("F78")
def test_a_reply_that_ends_for_a_call_it_does_not_hold_is_senseless() -> None:
    """No call, or two with one id: nothing is run, and the model is told."""
    model = Canned([calls(), calls(CALL, CALL), says("Done.")])

    assert lived(TOOLS, model, [], world := World())[0].reason is StopReason.COMPLETED

    assert world.did == []
    assert texts(model.requests[1]) == texts(model.requests[2]) == [ways.NOT_TAKEN]


@pytest.mark.fault("F78")
def test_time_is_bounded_between_the_calls_of_one_reply() -> None:
    """Two hundred calls in one reply cannot outrun it; what was not run says so."""
    result, seen = lived(TOOLS, Canned([by_tools(["late"] * 200)]), [], world := World())

    assert (result.reason, world.did) == (StopReason.MAX_WALL_TIME, ["late"] * 2)
    skipped = [happening.result for happening in seen if isinstance(happening, Acted)][2:]
    assert skipped == [ToolResult.err("not_run", loop.NO_TIME)] * 198


def test_handing_over_ends_it_before_anything_else_is_run() -> None:
    """What the same reply calls for afterwards is not done, and no more is asked."""
    result, seen = lived(TOOLS, Canned([by_tools(["a", "leave", "b"])]), [], world := World())

    assert (result, world.did) == (RunResult(StopReason.HANDED_OVER, "", 1), ["a", "leave"])
    last = [event for event in seen if isinstance(event, Acted)][-1]
    assert last.result == ToolResult.err("not_run", loop.NOT_RUN)
    assert seen[-1] == Entered("1", RunState.STOP)


@each_row(
    "whats, reason",
    [
        (["a", "b", "a"], StopReason.MODEL_UNAVAILABLE),
        (["forbidden"] * DENIED_TO_END, StopReason.POLICY_DENIED),
        (["a"] * (1 + IDLE_TO_END), StopReason.NO_OP_LOOP),
        (["fail fail fail"] * 4, StopReason.MAX_FAILURES),
        (["exit1 fail bug", "bug exit1 forbidden fail", "fail bug exit1", "bug bug bug"], StopReason.MAX_FAILURES),
        (["fail fail fail a"] * 4, StopReason.MODEL_UNAVAILABLE),
        (["forbidden", "forbidden", "a", "forbidden"], StopReason.MODEL_UNAVAILABLE),
        ([*["forbidden"] * 2, "asked", *["forbidden"] * 3], StopReason.AWAITING_APPROVAL),
        (["asked", *["a"] * (1 + IDLE_TO_END)], StopReason.AWAITING_APPROVAL),
        (["late", "late"], StopReason.MAX_WALL_TIME),
        ([f"x{nth}" for nth in range(MOST_STEPS)], StopReason.MAX_STEPS),
        (["leave"], StopReason.HANDED_OVER),
        (["interrupt"], StopReason.INTERRUPTED),
    ],
)
def test_why_a_run_ends(whats: list[str], reason: StopReason) -> None:
    """For both ways to ask for an act, by the same functions."""
    for acts, reply in BOTH:
        assert lived(acts, Plan([reply(what.split()) for what in whats]), [])[0].reason is reason, acts


def test_a_run_that_repeats_itself_is_told_once() -> None:
    """Before it is ended."""
    for acts, reply in BOTH:
        model = Plan([reply(["a"])] * (1 + IDLE_TO_END))
        lived(acts, model, [])
        told = [step for step, request in enumerate(model.requests) if IDLE in str(request.messages[-1])]
        assert told == [1 + IDLE_TO_TELL]


def test_steering_reaches_the_model_with_the_next_message() -> None:
    """Beside the results, or beside the advice after a cut; with nothing new, nothing is added."""
    model = Canned([WHOLE, by_tools(["b"]), CUT, DONE])

    lived(TOOLS, model, [News("", "Look out."), News(), News("And", "again.")])

    assert [texts(request) for request in model.requests] == [
        ["Continue."],
        ["Look out."],
        [],
        [f"{ways.CUT}\n\nAnd\n\nagain."],
    ]
    assert [len(results(request)) for request in model.requests] == [0, 1, 1, 0]


def test_everything_that_happens_is_recorded_with_its_duration() -> None:
    """Each answer of the model, each call before and after it, and what the model is told beside results."""
    _, seen = lived(TOOLS, Canned([WHOLE, DONE]), [News("", "Look out.")])

    did = ToolResult("did a", facts={"exit": 0}, policy_flags=("denied",))  # as the gate there marks all
    assert seen == [
        *(Entered("0", RunState.INIT), Entered("1", RunState.PLAN), Answered("1", WHOLE)),
        *(Entered("1", RunState.EXECUTE_TOOL), Acting("1.1", "bash", args_hash(CALL.input))),
        *(Acted.of("1.1", ToolCall(*CALL), did, 1.0), Entered("1", RunState.OBSERVE)),
        *(Told("1", runtime="Look out."), Entered("2", RunState.PLAN), Answered("2", DONE)),
        *(Entered("2", RunState.RESPOND), Entered("2", RunState.STOP)),
    ]
