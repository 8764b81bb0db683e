"""A conversation that grows meets its budget, and what was done in it is never lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.cell.actions import ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.loop.context import COMPACT, GO_ON, KEPT_STEPS, LOST, Room
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.record import Answered, Compacted, Line, standing
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Toolbox
from infra.shared.conversation import MAX_TOKENS, Completion, Message, Request, Text, ToolUse, Usage, to_plain
from infra.shared.conversation import ToolResult as Answer
from tests.cell.loop.records import as_lines
from tests.cell.loop.replies import Reply, calls, fails, results, says, texts
from tests.cell.tools.made import tool
from tests.shared.rows import each_row

OPENING = (Message("user", (Text("Continue."),)),)
REQUEST = Request(("You are.",), OPENING, (), "unit-1")
LONG = 6000
REMINDER = "d1: the directive"


class Worker:
    """A model that makes calls until it has made enough, and writes summaries when it is asked to."""

    def __init__(self, steps: int, length: int = LONG, say: int = 0) -> None:
        self.steps = steps
        self.length = length
        self.say = say
        """So many characters of its own words in each reply: nothing can cut those down."""
        self.requests: list[Request] = []
        self.summaries: list[Request] = []
        self.summary: Callable[[Request], Completion] = lambda request: says(f"Summary {len(self.summaries)}.")
        self.most_bytes = 1 << 60
        """What its provider takes."""
        self.usage = Usage()

    def __call__(self, request: Request) -> Completion:
        if size_of(request) > self.most_bytes:
            raise ModelFailure("context_overflow", "prompt is too long")
        last = texts(request)[-1] if texts(request) else ""
        if last.startswith(COMPACT):
            self.summaries.append(request)
            return self.summary(request)
        self.requests.append(request)
        number = len(self.requests)
        if number > self.steps:
            return says("All done.")
        use = ToolUse(f"call-{number}", "give", {"length": self.length, "number": number})
        return calls(use, text="w" * self.say)._replace(usage=self.usage)


def size_of(request: Request) -> int:
    return len(json.dumps(to_plain(request), ensure_ascii=False).encode())


def run(model: Any, most: int, steps: int = 100, **more: Any) -> tuple[RunResult, list[Line]]:
    """One run on a budget of `most` tokens, with what happened."""
    seen: list[Line] = []

    def give(given: Any) -> ToolResult:
        return ToolResult(f"{given.number:05}" + "x" * given.length)

    toolbox = Toolbox([tool("give", give, length=int, number=int)])
    room = Room(most, lambda: REMINDER)
    outcome = run_task(
        Task(REQUEST), RunConfig(steps, 1e9), TaskContext(model, toolbox.call, record=seen.append, room=room, **more)
    )
    return outcome, seen


def of(kind: type[Any], seen: list[Line]) -> list[Any]:
    return [event for event in seen if isinstance(event, kind)]


def test_the_providers_count_is_believed() -> None:
    """It says a token for each byte: the budget is reached after a third of what was thought."""
    model = Worker(12, length=3000)
    assert not of(Compacted, run(model, 20_000)[1])
    model = Worker(12, length=3000)
    model.usage = Usage(input_tokens=100, cache_write_tokens=100, cache_read_tokens=10**9)
    _, seen = run(model, 20_000)
    assert of(Compacted, seen)


@pytest.mark.fault("F75")
def test_over_the_budget_the_model_sums_up() -> None:
    """Asked at the end of the same conversation; it goes on with the opening, that text, a reminder, the last steps."""
    model = Worker(40, length=10, say=2000)
    outcome, seen = run(model, 20_000, steps=38)
    [summed] = of(Compacted, seen)
    [asked] = model.summaries
    at = next(n for n, request in enumerate(model.requests) if "Summary" in str(request.messages))
    before, after = model.requests[at - 1], model.requests[at]

    assert outcome.reason is StopReason.MAX_STEPS, "the control: it went on, and met another bound"
    assert asked._replace(messages=()) == before._replace(messages=())
    *rest, end = before.messages[: len(asked.messages)]
    assert asked.messages == (*rest, end._replace(content=(*end.content, Text(COMPACT)))), "all that is dropped"
    assert results(asked), "the last results are not answered by the question alone"
    opening, summary, go_on, *last = after.messages
    assert (opening,) == OPENING
    assert summary == Message("assistant", (Text("Summary 1."),))
    assert go_on.role == "user"
    assert go_on.content[0] == Text(f"{GO_ON}\n\n{REMINDER}")
    assert len(last) == 2 * KEPT_STEPS
    assert tuple(last[:-2]) == before.messages[len(before.messages) - len(last) + 2 :]
    whole(after)
    assert (summed.answer, words_of(summed)) == (says("Summary 1."), "Summary 1.")
    assert size_of(after) < size_of(before) / 2


def whole(request: Request) -> None:
    """Roles take turns, and each call has its result in the next message."""
    for at, message in enumerate(request.messages):
        assert message.role == ("assistant" if at % 2 else "user")
        asked = [block.id for block in message.content if isinstance(block, ToolUse)]
        if asked:
            assert asked == [b.tool_use_id for b in request.messages[at + 1].content if isinstance(b, Answer)]


def test_over_the_budget_again_it_sums_up_again() -> None:
    """As often as needed: all that was sent was whole, and none over the budget."""
    model = Worker(200, length=10, say=2000)
    outcome, seen = run(model, 20_000, steps=200)
    assert outcome.reason is StopReason.MAX_STEPS
    assert len(of(Compacted, seen)) == len(model.summaries)
    assert len(model.summaries) > 2
    assert "Summary 1." in str(model.summaries[1].messages), "the next is made with the one before in sight"
    assert max(map(size_of, model.requests)) <= 20_000 * 3
    for request in (*model.requests, *model.summaries):
        whole(request)


def words_of(summed: Compacted) -> str:
    block = summed.messages[0].content[0]
    assert isinstance(block, Text)
    return block.text


BAD: dict[str, Reply] = {
    "was not to be had": fails("unavailable"),
    "called for a tool": calls(ToolUse("1", "give", {}), text="I will."),
    "was empty": says("  "),
    "was cut": says("It began", MAX_TOKENS),
    "ended with refusal": says("No.", "refusal"),
}


@each_row("problem", BAD)
def test_for_a_reply_that_is_no_summary_the_record_stands(problem: str) -> None:
    """Behind what was summed up before. Nothing is run."""
    model = Worker(40, length=10, say=2000)
    bad = BAD[problem]
    model.summary = bad if callable(bad) else lambda request: bad
    outcome, seen = run(model, 20_000, steps=38)
    [summed] = of(Compacted, seen)
    assert outcome.reason is StopReason.MAX_STEPS
    assert summed.answer is None
    assert words_of(summed) == f"{'w' * 2000}\n\n{LOST}"


@pytest.mark.fault("F75")
def test_a_provider_that_takes_less_is_asked_again_behind_a_summary() -> None:
    """The same step is asked again, and from then on the limit is known, so it is not met again."""
    model = Worker(60, length=3000)
    model.most_bytes = 100_000
    refused = list[int]()

    def asked(request: Request) -> Completion:
        if size_of(request) > model.most_bytes:
            refused.append(size_of(request))
        return model(request)

    outcome, seen = run(asked, 1_000_000)
    assert outcome.reason is StopReason.COMPLETED
    assert all(summed.answer for summed in of(Compacted, seen)), "asked for without the last steps"
    assert (len(of(Compacted, seen)), len(refused)) == (2, 1)


def test_what_no_summary_mends_ends_the_run() -> None:
    """An opening that is too long, for the budget or for the provider, and no money."""
    for model, most in ((fails("context_overflow"), 1_000_000), (Worker(9), 10)):
        outcome, _ = run(model, most)
        assert outcome.reason is StopReason.MODEL_UNAVAILABLE
        assert outcome.failure
        assert outcome.failure.type == "context_overflow"
    model = Worker(40, length=10, say=2000)
    model.summary = fails("budget_exhausted")
    assert run(model, 20_000)[0].reason is StopReason.MODEL_UNAVAILABLE, "there is no money for going on, either"


def test_a_summary_that_is_on_record_is_not_asked_for_again() -> None:
    """A run that is gone on with stands behind its summary, with the same conversation."""
    model = Worker(40, length=10, say=2000)
    _, seen = run(model, 20_000, steps=38)
    at = next(n for n, event in enumerate(seen) if isinstance(event, Compacted))
    after = model.requests[[isinstance(each, Answered) for each in seen[:at]].count(True)]
    assert standing(as_lines(seen[: at + 1])).messages == list(after.messages)
