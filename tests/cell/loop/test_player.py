"""A run that is played from its record stands where it stood, and nothing in it is done twice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.loop import Acted, Event, RunResult, Task, TaskContext, run_task
from infra.cell.loop.player import NOT_BEGUN, UNKNOWN, Player
from infra.cell.loop.progress import IDLE_TO_END, RunConfig
from infra.cell.loop.recorded import Recorded, recorded
from infra.cell.run_states import StopReason
from infra.cell.runner.transcript import line_of
from infra.shared import conversation
from infra.shared.conversation import MAX_TOKENS, Completion, Message, Request, Text, ToolUse, to_plain
from tests.cell.loop.records import OPENING, as_lines, opened
from tests.cell.loop.replies import calls, says
from tests.shared.rows import each_row
from tests.shared.texts import any_text

FINAL = "All done."


class World:
    """What acts leave behind: each of them counts."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def call(self, call: ToolCall) -> ToolResult:
        self.did.append(call.args["what"])
        return ToolResult(f"did {call.args['what']} as number {len(self.did)}")


class Model:
    """Says what its plan has for as many replies as there are in the conversation; notes what it is shown."""

    def __init__(self, plan: list[Completion]) -> None:
        self.plan = plan
        self.shown: list[Request] = []

    def __call__(self, request: Request) -> Completion:
        self.shown.append(request)
        turn = sum(message.role == "assistant" for message in request.messages)
        return self.plan[turn] if turn < len(self.plan) else says(FINAL)


class Steer:
    """Words after some steps."""

    def __init__(self, words: dict[int, str]) -> None:
        self._words, self._step = words, 0

    def __call__(self) -> str | None:
        self._step += 1
        return self._words.get(self._step)


def run(model: Model, world: World, steer: Callable[[], str | None], record: list[Event]) -> RunResult:
    return run_task(Task(OPENING), RunConfig(30, 100), TaskContext(model, world.call, steer, record.append))


def go_on(before: Recorded, model: Model, world: World, steer: Callable[[], str | None]) -> tuple[RunResult, Player]:
    fresh: list[Event] = []
    player = Player(before, TaskContext(model, world.call, steer, fresh.append), "A new process.")
    outcome = run_task(Task(OPENING), RunConfig(30, 100), player.context)
    return outcome, player


NAMES = st.integers(0, 9).map(lambda number: f"act {number}")
PLANS = st.lists(
    st.lists(NAMES, min_size=1, max_size=3).map(
        lambda names: calls(*(ToolUse(f"c{at}", "act", {"what": name}) for at, name in enumerate(names)))
    )
    | st.just(says("Cut.", MAX_TOKENS)),
    min_size=1,
    max_size=6,
)


@given(PLANS, st.dictionaries(st.integers(1, 6), st.just("Look out."), max_size=2), st.data())
def test_a_run_that_is_cut_anywhere_goes_on_from_there(
    plan: list[Completion], words: dict[int, str], data: st.DataObject
) -> None:
    """Wherever its record ends: what was begun is not done again, what was done is shown as it was, and the model sees
    the same conversation up to there as in the run that nobody cut."""
    events: list[Event] = []
    whole_model = Model(plan)
    run(whole_model, World(), Steer(words), events)
    lines = as_lines(events)
    before = recorded(lines[: data.draw(st.integers(1, len(lines)), label="lines on record")])

    world, model = World(), Model(plan)
    outcome, _ = go_on(before, model, world, lambda: None)

    known = before.steps
    skipped = sum(len([use for use in each.content if isinstance(use, ToolUse)]) for each in plan[:known])
    acts = [use.input["what"] for each in plan[known:] for use in each.content if isinstance(use, ToolUse)]
    assert world.did[: len(acts)] == acts or outcome.reason is not StopReason.COMPLETED
    assert len(world.did) <= len(acts), f"{skipped} calls were on record"
    if model.shown:
        mine, theirs = model.shown[0].messages, whole_model.shown[known].messages
        assert mine[:-1] == theirs[:-1]
        for block, other in zip(results_of(mine[-1]), results_of(theirs[-1]), strict=True):
            assert block == other or block.content in (UNKNOWN, NOT_BEGUN)
        if known:
            assert "A new process." in texts_of(mine[-1])


def results_of(message: Message) -> list[conversation.ToolResult]:
    return [block for block in message.content if isinstance(block, conversation.ToolResult)]


def texts_of(message: Message) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


def two_calls() -> list[dict[str, Any]]:
    """One step with two calls, whole."""
    events: list[Event] = []
    plan = [calls(ToolUse("1", "act", {"what": "a"}), ToolUse("2", "act", {"what": "b"}))]
    run(Model(plan), World(), lambda: None, events)
    return as_lines(events)


@each_row(
    "lines, answers",
    [
        (2, [NOT_BEGUN, NOT_BEGUN]),
        (3, [UNKNOWN, NOT_BEGUN]),
        (4, ["did a as number 1", NOT_BEGUN]),
        (5, ["did a as number 1", UNKNOWN]),
        (6, ["did a as number 1", "did b as number 2"]),
    ],
)
def test_what_is_not_known_to_be_done_is_said_to_be_so(lines: int, answers: list[str]) -> None:
    """Nobody knows how far a call came that was begun; one that stood behind it was not."""
    world, model = World(), Model([calls(ToolUse("1", "act", {"what": "a"}))])
    before = recorded(two_calls()[:lines])
    fresh: list[Event] = []
    player = Player(before, TaskContext(model, world.call, record=fresh.append))
    run_task(Task(OPENING), RunConfig(9, 99), player.context)

    assert [result.content for result in results_of(model.shown[0].messages[-1])] == answers
    assert world.did == []
    unsure = [event for event in fresh if isinstance(event, Acted)]
    assert [line_of(each)[1]["content"] for each in unsure] == [each for each in answers if not each.startswith("did")]


def test_counts_go_on_where_they_were() -> None:
    """A model that does the same for ever is not given more of it by a new process."""
    same = calls(ToolUse("1", "wait", {"what": "wait"}))

    def call(call: ToolCall) -> ToolResult:
        return ToolResult("nothing yet")

    events: list[Event] = []
    model = Model([same] * 40)
    run_task(Task(OPENING), RunConfig(5, 99), TaskContext(model, call, record=events.append))
    before = recorded(as_lines(events))
    player = Player(before, TaskContext(model, call))
    outcome = run_task(Task(OPENING), RunConfig(30, 99), player.context)
    assert (outcome.reason, outcome.steps) == (StopReason.NO_OP_LOOP, 1 + IDLE_TO_END)


LINES = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.integers(0, 9), st.sampled_from(["kind", "step_id", "call", "content", "messages", "at", "run_id"]), LINES)
def test_a_record_that_was_changed_is_refused_or_read(number: int, key: str, value: Any) -> None:
    """It is the agent's own file: nothing in it is an exception of another kind."""
    lines = two_calls()
    lines[number % len(lines)][key] = value
    with contextlib.suppress(ValueError):
        assert isinstance(recorded(lines), Recorded)


@each_row("lines", [[], [{"kind": "answered"}], [opened(), opened()], [{}]])
def test_what_does_not_open_once_and_first_is_no_record(lines: list[dict[str, Any]]) -> None:
    """Empty, without its opening, or two in one."""
    with pytest.raises(ValueError, match="transcript"):
        recorded(lines)


def test_an_answer_that_is_missing_is_noticed() -> None:
    """A gap in the middle: what stands after it means something else."""
    answered = {"kind": "answered", "at": "", "step_id": "2", **to_plain(says("b"))}
    with pytest.raises(ValueError, match="expected 1"):
        recorded([opened(), answered])
