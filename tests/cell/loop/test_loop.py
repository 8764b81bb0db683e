"""The bounded loop ends for one of its reasons, and runs nothing that was not asked for properly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.loop import loop, ways
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import DENIED_TO_END, IDLE, IDLE_TO_END, IDLE_TO_TELL, RunConfig
from infra.cell.loop.record import Acted, Acting, Answered, Entered, Line, Told, args_hash
from infra.cell.loop.ways import News
from infra.cell.run_states import RunState, StopReason
from infra.cell.tools.tool import Toolbox
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
    REFUSAL,
    TOOL_USE,
    Completion,
    Message,
    Request,
    Text,
    ToolUse,
)
from infra.shared.conversation import ToolResult as Answer
from tests.cell.loop.lives import BOTH, Plan, lived
from tests.cell.loop.records import MOST_STEPS
from tests.cell.loop.replies import Canned, Reply, calls, results, says, texts
from tests.cell.tools.made import tool
from tests.shared.rows import each_row

REQUEST = Request(("You are.",), (Message("user", (Text("Continue."),)),), (), "unit-1")


class Bench:
    """Two tools that note what they are called with, and a clock that each tool call moves."""

    def __init__(self, seconds_per_call: float = 1.0) -> None:
        self.did: list[str] = []
        self.now = 0.0
        self._seconds = seconds_per_call
        self.toolbox = Toolbox(
            [
                tool("note", self._note, words=str),
                tool("leave", lambda given: ToolResult("bye", hands_over=True)),
            ]
        )

    def _note(self, given: Any) -> ToolResult:
        self.did.append(given.words)
        self.now += self._seconds
        return ToolResult(f"noted {given.words}")

    def run(
        self, model: Callable[[Request], Completion], steps: int = 10, seconds: float = 100, **more: Any
    ) -> RunResult:
        context = TaskContext(model, self.toolbox.call, monotonic=lambda: self.now, **more)
        return run_task(Task(REQUEST), RunConfig(steps, seconds), context)


def note(words: str, id: str = "call") -> ToolUse:
    return ToolUse(id, "note", {"words": words})


def test_calls_are_run_in_order_and_answered_in_one_message() -> None:
    """Several calls in one reply: each has its result, under its own id, in the order of the calls."""
    bench = Bench()
    model = Canned([calls(note("a", "1"), note("b", "2"), text="Two notes."), says("Done.")])

    assert bench.run(model).reason is StopReason.COMPLETED

    assert bench.did == ["a", "b"]
    assert results(model.requests[1]) == [
        Answer("1", "noted a"),
        Answer("2", "noted b"),
    ]
    reply = Message("assistant", (Text("Two notes."), note("a", "1"), note("b", "2")))
    assert model.requests[1].messages[:-1] == (*REQUEST.messages, reply)
    assert model.requests[1]._replace(messages=REQUEST.messages) == REQUEST, "or the provider's cache is lost"


@pytest.mark.fault("F71")
@each_row("reason, did", [(END_TURN, []), (MAX_TOKENS, []), (REFUSAL, []), (TOOL_USE, ["a"])])
def test_calls_are_run_only_when_the_reply_ended_for_them(reason: str, did: list[str]) -> None:
    """A call that was cut looks whole: only the stop reason tells."""
    bench = Bench()
    bench.run(Canned([calls(note("a"), stop_reason=reason), says("Then without.")]))
    assert bench.did == did


def fail(request: Request) -> Completion:
    raise FAILURE


FAILURE = ModelFailure("unavailable", "no answer", None)
CUT, WHOLE, DONE = says("", MAX_TOKENS), calls(note("a")), says("Done.")


@pytest.mark.fault("F76")
@each_row(
    "replies, result",
    [
        ([DONE], RunResult(StopReason.COMPLETED, "Done.", 1)),
        ([fail], RunResult(StopReason.MODEL_UNAVAILABLE, "", 0, FAILURE)),
        ([says("No.", REFUSAL)], RunResult(StopReason.REFUSAL, "No.", 1)),
        ([calls(ToolUse("1", "nothing", {})), DONE], RunResult(StopReason.COMPLETED, "Done.", 2)),
        ([CUT] * 4, RunResult(StopReason.MAX_TOKENS, "", 4)),
        ([CUT, CUT, CUT, WHOLE, CUT, CUT, DONE], RunResult(StopReason.COMPLETED, "Done.", 7)),
    ],
)
def test_how_replies_end_a_run(replies: list[Reply], result: RunResult) -> None:
    """By words, by none, by a refusal; a failed call does not, and a cut reply does not but four times in a row."""
    assert Bench().run(Canned(replies)) == result


def test_a_cut_reply_is_answered_with_advice() -> None:
    """The cut call stays out of the conversation, since no result can answer it."""
    model = Canned([calls(note("cut"), text="I will", stop_reason=MAX_TOKENS), says("In pieces.")])

    assert Bench().run(model) == RunResult(StopReason.COMPLETED, "In pieces.", 2)

    assert model.requests[1].messages[-2] == Message("assistant", (Text("I will"),))
    assert texts(model.requests[1]) == [ways.CUT]


@pytest.mark.fault("F78")
def test_a_reply_that_ends_for_a_call_it_does_not_hold_is_senseless() -> None:
    """No call, or two with one id: nothing is run, and the model is told."""
    bench = Bench()
    model = Canned([calls(), calls(note("a", "1"), note("b", "1")), says("Done.")])

    assert bench.run(model).reason is StopReason.COMPLETED

    assert bench.did == []
    assert texts(model.requests[1]) == texts(model.requests[2]) == [ways.NOT_TAKEN]


@pytest.mark.fault("F78")
def test_time_is_bounded_between_the_calls_of_one_reply() -> None:
    """Two hundred calls in one reply cannot outrun it; what was not run says so."""
    bench = Bench(seconds_per_call=10)
    seen: list[Line] = []
    many = calls(*(note("on", str(n)) for n in range(200)))

    assert bench.run(Canned([many]), seconds=25, record=seen.append).reason is StopReason.MAX_WALL_TIME

    assert bench.did == ["on"] * 3
    skipped = [happening.result for happening in seen if isinstance(happening, Acted)][3:]
    assert skipped == [ToolResult.err("not_run", loop.NO_TIME)] * 197


def test_handing_over_ends_it_before_anything_else_is_run() -> None:
    """What the same reply calls for afterwards is not done, and no more is asked."""
    bench = Bench()
    seen: list[Line] = []
    model = Canned([calls(note("a", "1"), ToolUse("2", "leave", {}), note("b", "3"), text="Off.")])

    assert bench.run(model, record=seen.append) == RunResult(StopReason.HANDED_OVER, "Off.", 1)

    assert bench.did == ["a"]
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
    words = iter([News("", "Look out."), News(), News("And", "again.")])
    model = Canned([calls(note("a")), calls(note("b")), says("", MAX_TOKENS), says("Done.")])

    Bench().run(model, news=lambda: next(words))

    assert [texts(request) for request in model.requests] == [
        ["Continue."],
        ["Look out."],
        [],
        [f"{ways.CUT}\n\nAnd\n\nagain."],
    ]
    assert [len(results(request)) for request in model.requests] == [0, 1, 1, 0]


def test_everything_that_happens_is_recorded_with_its_duration() -> None:
    """Each answer of the model, each call before and after it, and what the model is told beside results."""
    bench = Bench(seconds_per_call=2.5)
    seen: list[Line] = []
    first, last = calls(note("a")), says("Done.")

    bench.run(Canned([first, last]), record=seen.append, news=lambda: News("", "Look out."))

    call = ToolCall(*note("a"))
    assert seen == [
        *(Entered("0", RunState.INIT), Entered("1", RunState.PLAN), Answered("1", first)),
        *(Entered("1", RunState.EXECUTE_TOOL), Acting("1.1", "note", args_hash({"words": "a"}))),
        *(Acted.of("1.1", call, ToolResult("noted a"), 2.5), Entered("1", RunState.OBSERVE)),
        *(Told("1", runtime="Look out."), Entered("2", RunState.PLAN), Answered("2", last)),
        *(Entered("2", RunState.RESPOND), Entered("2", RunState.STOP)),
    ]
