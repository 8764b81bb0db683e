"""Whether a run gets on, by what comes of its steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.loop import loop, progress
from infra.cell.loop.arguments import schema
from infra.cell.loop.loop import Bounds, End, Event, Hooks, Idle, Outcome
from infra.cell.loop.player import Player
from infra.cell.loop.progress import (
    FAILED_TO_END,
    FAILED_TO_TELL,
    IDLE_TO_END,
    IDLE_TO_TELL,
    MAX_FAILURES,
    NO_OP_LOOP,
    Effects,
    Progress,
    has_failed,
)
from infra.cell.loop.recorded import recorded
from infra.cell.loop.registry import Reply, SideEffect, Tool
from infra.cell.loop.toolbox import Toolbox
from infra.shared.conversation import Completion, ToolSpec, ToolUse
from tests.cell.loop.records import OPENING, as_lines
from tests.cell.loop.replies import Canned, calls, says, texts

NOTHING = Effects(("same",), (False,), False)


def test_steps_without_effect_are_counted_until_one_has_one() -> None:
    """A result that was not seen, a file, or a word of somebody's."""
    it = Progress(frozenset(["same"]))
    for nth in range(1, IDLE_TO_END):
        it = it.after(NOTHING)
        assert (it.idle, it.stop) == (nth, "")
    assert it.after(NOTHING).stop == NO_OP_LOOP
    assert it.after(Effects(("other",), (False,), False)).idle == 0
    assert it.after(Effects(("same",), (False,), True)).idle == 0
    assert it.heard().after(NOTHING).idle == 1


def test_calls_that_fail_are_counted_over_steps() -> None:
    """Whatever each of them says; one that does not fail begins the count anew."""
    it = Progress().after(Effects(("a", "b"), (True,) * (FAILED_TO_END - 1), True))
    assert it.stop == ""
    assert it.after(Effects(("c",), (True,), True)).stop == MAX_FAILURES
    assert it.after(Effects(("c", "d"), (False, True), True)).failed == 1


@pytest.mark.parametrize(
    ("reply", "failed"),
    [
        (Reply("no such tool", is_error=True, error_code="unknown_tool"), True),
        (Reply("x\n[exit status 1]"), True),
        (Reply("[ended by signal 9]"), True),
        (Reply("x\n[exit status 0]"), False),
        (Reply("[exit status 1] is what it says"), False),
        (Reply("asked", is_error=True, error_code="awaiting_approval"), False),
        (Reply("not run: ...", is_error=True, error_code="not_run"), False),
    ],
)
def test_what_counts_as_failed(reply: Reply, failed: bool) -> None:
    """A command by its status; what waits for the PM has not failed."""
    assert has_failed(reply) is failed


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=60))
def test_a_run_that_gets_on_is_never_stopped_for_it(steps: list[tuple[str, bool, bool]]) -> None:
    """And one that does not always is."""
    it, idle, failed = Progress(), 0, 0
    seen: set[str] = set()
    for result, fails, changed in steps:
        it = it.after(Effects((result,), (fails,), changed))
        idle = 0 if changed or result not in seen else idle + 1
        failed = failed + 1 if fails else 0
        seen.add(result)
        assert (it.idle, it.failed) == (idle, failed)
        assert it.stop == (NO_OP_LOOP if idle >= IDLE_TO_END else MAX_FAILURES if failed >= FAILED_TO_END else "")


def turns(count: int = 99) -> list[Completion]:
    """Each another command."""
    return [calls(ToolUse(f"call-{nth}", "do", {"what": str(nth)})) for nth in range(count)]


def run(model: Canned, said: str, changed: Any = lambda: False, **more: Any) -> Outcome:
    def act(given: Mapping[str, Any], seconds: float) -> Reply:
        return Reply(said.format(given["what"]))

    box = Toolbox([Tool(ToolSpec("do", "", schema({"what": {"type": "string"}})), act, 1000, SideEffect.EXECUTE)])
    return loop.run(model, OPENING, box, Bounds(99, 99), Hooks(changed=changed, **more))


def told(model: Canned, words: str) -> list[int]:
    return [step for step, request in enumerate(model.requests) if any(words in text for text in texts(request))]


def test_twelve_different_commands_without_effect_are_noticed() -> None:
    """Told once, and then ended; the first has shown something new."""
    model = Canned(turns())
    assert run(model, "[exit status 0]") == Outcome(End.NO_OP_LOOP, "", 1 + IDLE_TO_END)
    assert told(model, progress.IDLE) == [1 + IDLE_TO_TELL]


def test_what_has_an_effect_goes_on() -> None:
    """By its results, or by files where these say nothing; and what the PM says meanwhile begins the count anew."""
    assert run(Canned([*turns(30), says("Done.")]), "{}").end is End.COMPLETED
    count = itertools.count()
    files = run(Canned([*turns(30), says("Done.")]), "ok", changed=lambda: next(count) % IDLE_TO_END == 0)
    assert files.end is End.COMPLETED
    words = (None if nth % 7 else "Look here." for nth in itertools.count(1))
    assert run(Canned([*turns(30), says("Done.")]), "ok", news=lambda: next(words)).end is End.COMPLETED


def test_failing_again_and_again_is_noticed() -> None:
    """Though each failure says something else."""
    model = Canned(turns())
    assert run(model, "{}\n[exit status 1]") == Outcome(End.MAX_FAILURES, "", FAILED_TO_END)
    assert told(model, progress.FAILED) == [FAILED_TO_TELL]


def test_what_waits_for_the_pm_is_not_stuck() -> None:
    """Its end says what it waits for."""
    assert run(Canned(turns()), "ok", awaits=lambda: True).end is End.AWAITING_APPROVAL


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

    def never(call: ToolUse) -> Reply:
        return Reply("ok")

    more = Canned([calls(ToolUse(f"more-{nth}", "do", {"what": f"x{nth}"})) for nth in range(99)])
    player = Player(before, more, never, Hooks(changed=lambda: False))
    outcome = loop.run(player.complete, OPENING, player, Bounds(99, 99), player.hooks)
    assert outcome == Outcome(End.NO_OP_LOOP, "", cut + IDLE_TO_END - 2)
