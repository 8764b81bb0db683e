"""The bounded loop ends for one of its reasons, and runs nothing that was not asked for properly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop import loop, progress, ways
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.record import Acted, Acting, Answered, Entered, Line, Told, args_hash
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
from tests.cell.loop.replies import Canned, calls, results, says, texts
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
                tool("leave", lambda given, seconds: ToolResult("bye", hands_over=True)),
            ]
        )

    def _note(self, given: Any, seconds: float) -> ToolResult:
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


def test_a_turn_ended_with_words_is_completed() -> None:
    """The words are the outcome's."""
    assert Bench().run(Canned([says("All done.")])) == RunResult(StopReason.COMPLETED, "All done.", 1)


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


def test_everything_else_of_the_request_stays() -> None:
    """What comes first must not change between calls, or the provider's cache is lost."""
    model = Canned([calls(note("a")), says("")])

    Bench().run(model)

    assert model.requests[1]._replace(messages=REQUEST.messages) == REQUEST


def test_a_failed_call_does_not_end_it() -> None:
    """The model reads what was wrong and goes on."""
    model = Canned([calls(ToolUse("1", "nothing", {})), says("I see.")])

    assert Bench().run(model).reason is StopReason.COMPLETED
    assert results(model.requests[1])[0].is_error


@pytest.mark.fault("F71")
@each_row("reason", [END_TURN, MAX_TOKENS, REFUSAL])
def test_calls_are_run_only_when_the_reply_ended_for_them(reason: str) -> None:
    """A call that was cut looks whole: only the stop reason tells."""
    bench = Bench()

    bench.run(Canned([calls(note("cut"), stop_reason=reason), says("Then without.")]))

    assert bench.did == []


def test_the_control_for_it() -> None:
    """The same call is run when the reply did end for it."""
    bench = Bench()

    bench.run(Canned([calls(note("whole"), stop_reason=TOOL_USE), says("")]))

    assert bench.did == ["whole"]


def test_a_cut_reply_is_answered_with_advice() -> None:
    """The cut call stays out of the conversation, since no result can answer it."""
    model = Canned([calls(note("cut"), text="I will", stop_reason=MAX_TOKENS), says("In pieces.")])

    assert Bench().run(model) == RunResult(StopReason.COMPLETED, "In pieces.", 2)

    assert model.requests[1].messages[-2] == Message("assistant", (Text("I will"),))
    assert texts(model.requests[1]) == [ways.CUT]


def test_replies_cut_again_and_again_end_it() -> None:
    """Three in a row are enough; one whole reply in between starts the count anew."""
    cut, whole = says("", MAX_TOKENS), calls(note("a"))

    assert Bench().run(Canned([cut, cut, cut])) == RunResult(StopReason.MAX_TOKENS, "", 3)
    assert Bench().run(Canned([cut, cut, whole, cut, cut, says("Done.")])).reason is StopReason.COMPLETED


@pytest.mark.fault("F78")
def test_a_reply_that_ends_for_a_call_it_does_not_hold_is_senseless() -> None:
    """No call, or two with one id: nothing is run, and the model is told."""
    bench = Bench()
    model = Canned([calls(), calls(note("a", "1"), note("b", "1")), says("Done.")])

    assert bench.run(model).reason is StopReason.COMPLETED

    assert bench.did == []
    assert texts(model.requests[1]) == texts(model.requests[2]) == [ways.SENSELESS]


@pytest.mark.fault("F76")
def test_a_refusal_ends_it() -> None:
    """It is not asked again."""
    assert Bench().run(Canned([says("No.", REFUSAL)])) == RunResult(StopReason.REFUSAL, "No.", 1)


def test_steps_are_bounded() -> None:
    """After the last allowed call of the model, its calls are still answered, and no more is asked."""
    bench = Bench()

    assert bench.run(lambda request: calls(note("on")), steps=3).reason is StopReason.MAX_STEPS
    assert bench.did == ["on"] * 3


def test_time_is_bounded_between_steps() -> None:
    """No model call begins after the time is over."""
    bench = Bench(seconds_per_call=10)

    assert bench.run(lambda request: calls(note("on")), seconds=25) == RunResult(StopReason.MAX_WALL_TIME, "", 3)


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


def test_a_model_that_fails_ends_it() -> None:
    """The failure is the outcome's, for whoever decides when to try again."""
    failure = ModelFailure("unavailable", "no answer", None)

    def fail(request: Request) -> Completion:
        raise failure

    assert Bench().run(fail) == RunResult(StopReason.MODEL_UNAVAILABLE, "", 0, failure)


def test_the_same_again_and_again_is_told_and_then_ended() -> None:
    """Also when each of the steps wrote a file: nothing came of it that was not there."""
    bench = Bench()
    model = Canned([calls(note("a"), text="Again.")] * 100)
    outcome = bench.run(model, record=lambda happening: None)
    assert outcome == RunResult(StopReason.NO_OP_LOOP, "Again.", 1 + progress.IDLE_TO_END)
    told = [at for at, request in enumerate(model.requests, 1) if progress.IDLE in texts(request)]
    assert told == [1 + progress.IDLE_TO_TELL + 1], "once, with the results of the step that was one too many"


def test_a_run_that_waits_for_somebodys_word_is_not_completed() -> None:
    """Nor stuck, when it asks for the same again and again; what else ends it ends it."""
    waiting: dict[str, Any] = {"awaits": lambda: True}
    assert Bench().run(Canned([says("I wait.")]), **waiting) == RunResult(StopReason.AWAITING_APPROVAL, "I wait.", 1)
    again = Bench().run(Canned([calls(note("a"))] * 10), **waiting)
    assert again == RunResult(StopReason.AWAITING_APPROVAL, "", 1 + progress.IDLE_TO_END)
    assert Bench().run(Canned([says("No.", REFUSAL)]), **waiting).reason is StopReason.REFUSAL


def test_other_calls_or_other_results_are_not_the_same() -> None:
    """A command that finds something new each time, and one that something new comes between; two in turn are."""
    count = iter(range(100))
    box = Toolbox([tool("look", lambda given, seconds: ToolResult(f"{next(count)} lines"))])
    model = Canned([*[calls(ToolUse("1", "look", {}))] * 30, says("Done.")])
    assert run_task(Task(REQUEST), RunConfig(99, 99), TaskContext(model, box.call)).reason is StopReason.COMPLETED
    same = [calls(note("a"))] * (progress.IDLE_TO_END - 1)
    assert Bench().run(Canned([*same, calls(note("b")), *same, says("Done.")]), 99).reason is StopReason.COMPLETED
    turns = [calls(note("ab"[at % 2])) for at in range(30)]
    assert Bench().run(Canned(turns), 99).reason is StopReason.NO_OP_LOOP


@each_row("where", ["model", "tool"])
def test_being_asked_to_end_ends_it(where: str) -> None:
    """From within a model call or a tool alike."""

    def interrupted(*given: object) -> Any:
        raise Interrupted

    box = Toolbox([tool("wait", interrupted)])
    model = interrupted if where == "model" else Canned([calls(ToolUse("1", "wait", {}))])

    assert run_task(Task(REQUEST), RunConfig(9, 9), TaskContext(model, box.call)).reason is StopReason.INTERRUPTED


def test_steering_reaches_the_model_with_the_next_message() -> None:
    """Beside the results, or beside the advice after a cut; with nothing new, nothing is added."""
    words = iter(["Look out.", None, "And again."])
    model = Canned([calls(note("a")), calls(note("b")), says("", MAX_TOKENS), says("Done.")])

    Bench().run(model, news=lambda: next(words))

    assert [texts(request) for request in model.requests] == [
        ["Continue."],
        ["Look out."],
        [],
        [f"{ways.CUT}\n\nAnd again."],
    ]
    assert [len(results(request)) for request in model.requests] == [0, 1, 1, 0]


def test_everything_that_happens_is_recorded_with_its_duration() -> None:
    """Each answer of the model, each call before and after it, and what the model is told beside results."""
    bench = Bench(seconds_per_call=2.5)
    seen: list[Line] = []
    first, last = calls(note("a")), says("Done.")

    bench.run(Canned([first, last]), record=seen.append, news=lambda: "Look out.")

    call, hashed = ToolCall(*note("a")), args_hash({"words": "a"})
    assert seen == [
        *(Entered("0", RunState.INIT), Entered("1", RunState.PLAN), Answered("1", first)),
        *(Entered("1", RunState.EXECUTE_TOOL), Acting("1.1", "note", hashed)),
        *(Acted.of("1.1", call, ToolResult("noted a"), 2.5), Entered("1", RunState.OBSERVE)),
        *(Told("1", runtime="Look out."), Entered("2", RunState.PLAN), Answered("2", last)),
        *(Entered("2", RunState.RESPOND), Entered("2", RunState.STOP)),
    ]
