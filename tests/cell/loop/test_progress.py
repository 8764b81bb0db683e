"""Whether a run gets on, by what comes of its steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.loop import progress
from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.loop.arguments import schema
from infra.cell.loop.loop import Event, Idle, RunResult, Task, TaskContext, run_task
from infra.cell.loop.player import Player
from infra.cell.loop.progress import (
    DENIED_TO_END,
    FAILED_TO_TELL,
    IDLE_TO_END,
    IDLE_TO_TELL,
    MAX_FAILURES,
    Effects,
    Progress,
    RunConfig,
    effects_of,
    stop_reason,
)
from infra.cell.loop.recorded import recorded
from infra.cell.loop.registry import SideEffect, Tool
from infra.cell.loop.toolbox import Toolbox
from infra.cell.run_states import StopReason
from infra.shared.conversation import Completion, ToolSpec, ToolUse
from tests.cell.loop.records import OPENING, as_lines
from tests.cell.loop.replies import Canned, calls, says, texts

CONFIG = RunConfig(99, 99.0)


def effects(*results: str, failed: tuple[bool, ...] = (False,), denied: bool = False, changed: bool = False) -> Effects:
    return Effects(tuple(("do", {}, each) for each in results), results, failed, denied, changed)


def reason(it: Progress) -> StopReason | None:
    return stop_reason(CONFIG, it, 1, 1.0)


def test_steps_without_effect_are_counted_until_one_has_one() -> None:
    """A result that was not seen, a file, or a word of somebody's."""
    nothing = effects("same")
    it = Progress(frozenset(["same"]))
    for nth in range(1, IDLE_TO_END):
        it = it.after(nothing)
        assert (it.idle, reason(it)) == (nth, None)
    assert reason(it.after(nothing)) is StopReason.NO_OP_LOOP
    assert it.after(effects("other")).idle == 0
    assert it.after(effects("same", "same", changed=True)).idle == 0
    assert it.after(effects("same", changed=True)).idle == IDLE_TO_END, "the step before, once more"
    assert it.heard().after(nothing).idle == 1


def test_calls_that_fail_are_counted_over_steps() -> None:
    """Whatever each of them says; one that does not fail begins the count anew."""
    it = Progress().after(effects("a", "b", failed=(True,) * (MAX_FAILURES - 1)))
    assert reason(it) is None
    assert reason(it.after(effects("c", failed=(True,)))) is StopReason.MAX_FAILURES
    assert it.after(effects("c", "d", failed=(False, True))).failed == 1
    assert stop_reason(CONFIG._replace(max_failures=3), it, 1, 1.0) is StopReason.MAX_FAILURES


def test_steps_of_denials_alone_are_counted() -> None:
    """One act that is carried out begins the count anew, and so does a word of the PM's."""
    denied = [ToolResult.err("denied", str(nth)) for nth in range(2)]
    call = ToolCall("1", "do", {})
    it = Progress()
    for _ in range(DENIED_TO_END):
        assert reason(it) is None
        it = it.after(effects_of((call, call), denied))
    assert reason(it) is StopReason.POLICY_DENIED
    assert it.failed == 0, "nothing was tried"
    assert it.after(effects_of((call, call), [ToolResult("done"), denied[0]])).denied == 0
    assert it.heard().denied == 0


@pytest.mark.parametrize(
    ("steps", "seconds", "why"),
    [(98, 98.9, None), (99, 0.0, StopReason.MAX_STEPS), (0, 99.0, StopReason.MAX_WALL_TIME)],
)
def test_steps_and_time_are_bounds(steps: int, seconds: float, why: StopReason | None) -> None:
    assert stop_reason(CONFIG, Progress(), steps, seconds) is why


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (ToolResult.err("unknown_tool", "no such tool"), (True,)),
        (ToolResult("x", facts={"exit": 1}), (True,)),
        (ToolResult("", facts={"exit": 137}), (True,)),
        (ToolResult("x", facts={"exit": 0}), (False,)),
        (ToolResult("[exit status 1] is what it says"), (False,)),
        (ToolResult.err("awaiting_approval", "asked"), ()),
        (ToolResult.err("denied", "no"), ()),
        (ToolResult.err("not_run", "not run: ..."), ()),
    ],
)
def test_what_counts_as_failed(result: ToolResult, failed: tuple[bool, ...]) -> None:
    """A command by its status; what was not carried out has not failed."""
    assert effects_of((ToolCall("1", "do", {}),), (result,)).failed == failed


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=60))
def test_a_run_that_gets_on_is_never_stopped_for_it(steps: list[tuple[str, bool, bool]]) -> None:
    """And one that does not always is."""
    it, idle, failed, last = Progress(), 0, 0, ""
    seen: set[str] = set()
    for result, fails, changed in steps:
        it = it.after(effects(result, failed=(fails,), changed=changed))
        idle = 0 if (changed and result != last) or result not in seen else idle + 1
        failed = failed + 1 if fails else 0
        seen.add(result)
        last = result
        assert (it.idle, it.failed) == (idle, failed)
        by_failures = StopReason.MAX_FAILURES if failed >= MAX_FAILURES else None
        assert reason(it) is (StopReason.NO_OP_LOOP if idle >= IDLE_TO_END else by_failures)


def turns(count: int = 99) -> list[Completion]:
    """Each another command."""
    return [calls(ToolUse(f"call-{nth}", "do", {"what": str(nth)})) for nth in range(count)]


def run(model: Canned, said: str, changed: Any = lambda: False, exit: int = 0, **more: Any) -> RunResult:
    def act(given: Mapping[str, Any], seconds: float) -> ToolResult:
        return ToolResult(said.format(given["what"]), facts={"exit": exit})

    box = Toolbox([Tool(ToolSpec("do", "", schema({"what": {"type": "string"}})), act, 1000, SideEffect.EXECUTE)])
    return run_task(Task(OPENING), RunConfig(99, 99), TaskContext(model, box.call, changed=changed, **more))


def told(model: Canned, words: str) -> list[int]:
    return [step for step, request in enumerate(model.requests) if any(words in text for text in texts(request))]


def test_twelve_different_commands_without_effect_are_noticed() -> None:
    """Told once, and then ended; the first has shown something new."""
    model = Canned(turns())
    assert run(model, "[exit status 0]") == RunResult(StopReason.NO_OP_LOOP, "", 1 + IDLE_TO_END)
    assert told(model, progress.IDLE) == [1 + IDLE_TO_TELL]


def test_what_has_an_effect_goes_on() -> None:
    """By its results, or by files where these say nothing; and what the PM says meanwhile begins the count anew."""
    assert run(Canned([*turns(30), says("Done.")]), "{}").reason is StopReason.COMPLETED
    count = itertools.count()
    files = run(Canned([*turns(30), says("Done.")]), "ok", changed=lambda: next(count) % IDLE_TO_END == 0)
    assert files.reason is StopReason.COMPLETED
    words = (None if nth % 7 else "Look here." for nth in itertools.count(1))
    assert run(Canned([*turns(30), says("Done.")]), "ok", news=lambda: next(words)).reason is StopReason.COMPLETED


def test_failing_again_and_again_is_noticed() -> None:
    """Though each failure says something else."""
    model = Canned(turns())
    assert run(model, "{}", exit=1) == RunResult(StopReason.MAX_FAILURES, "", MAX_FAILURES)
    assert told(model, progress.FAILURES) == [FAILED_TO_TELL]


def test_however_many_calls_of_one_reply_fail_the_model_is_warned_before_the_run_ends() -> None:
    """One more failure ends it; one that does not fail begins the count anew."""
    many = calls(*(ToolUse(f"call-{nth}", "do", {"what": str(nth)}) for nth in range(3 * MAX_FAILURES)))
    model = Canned([many, *turns()])
    assert run(model, "{}", exit=1) == RunResult(StopReason.MAX_FAILURES, "", 2)
    assert told(model, progress.FAILURES) == [1]
    assert run(Canned([many, says("I give up.")]), "{}", exit=1).reason is StopReason.COMPLETED


def test_what_waits_for_the_pm_is_not_stuck() -> None:
    """Its end says what it waits for."""
    assert run(Canned(turns()), "ok", awaits=lambda: True).reason is StopReason.AWAITING_APPROVAL


def test_a_run_from_its_record_comes_to_the_same_count() -> None:
    """Files are looked at once; what was seen is on record."""
    seen: list[Event] = []
    looks = itertools.count()

    def changed() -> bool:
        return next(looks) == 3

    cut = 7
    run(Canned([*turns(cut), says("Cut.")]), "ok", changed=changed, record=seen.append)
    assert [event.step for event in seen if isinstance(event, Idle)] == [2, 3, 4, 6, 7]
    before = recorded(as_lines([event for event in seen if event.step <= cut]))
    assert before.idle == {2, 3, 4, 6, 7}

    def never(call: ToolCall) -> ToolResult:
        return ToolResult("ok")

    more = Canned([calls(ToolUse(f"more-{nth}", "do", {"what": f"x{nth}"})) for nth in range(99)])
    player = Player(before, TaskContext(more, never, changed=lambda: False))
    outcome = run_task(Task(OPENING), RunConfig(99, 99), player.context)
    assert outcome == RunResult(StopReason.NO_OP_LOOP, "", cut + IDLE_TO_END - 2)
