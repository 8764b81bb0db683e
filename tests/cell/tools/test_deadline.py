"""An act that hangs is ended by the dispatcher, whatever it hangs in, and nothing of it continues."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.loop import Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.run_states import StopReason
from infra.cell.tools.arguments import schema
from infra.cell.tools.deadline import OutOfTime, within
from infra.cell.tools.registry import SideEffect, Tool
from infra.cell.tools.tool import Toolbox
from infra.shared.conversation import ToolSpec, ToolUse
from tests.cell.loop.records import OPENING
from tests.cell.loop.replies import Canned, calls, results, says

DONE: list[int] = []


def turns_in_spite_of_it() -> None:
    while True:
        with contextlib.suppress(Exception):
            DONE.append(1)


def sleeps() -> None:
    time.sleep(3600)


def waits_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def waits_for_a_child() -> None:
    subprocess.run(["sleep", "3600"], check=True)


def matches_for_ever() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


HANGS = (turns_in_spite_of_it, sleeps, waits_for_a_lock, waits_for_a_child, matches_for_ever)


def box(act: Callable[[], Any], timeout_ms: int = 100, **more: Any) -> Toolbox:
    def run(given: Mapping[str, Any], seconds: float) -> ToolResult:
        act()
        return ToolResult("did it")

    fine = Tool(ToolSpec("fine", "", schema({})), lambda given, seconds: ToolResult("fine"), 60_000, SideEffect.READ)
    return Toolbox([Tool(ToolSpec("hangs", "", schema({})), run, timeout_ms, SideEffect.EXECUTE), fine], **more)


@pytest.mark.parametrize("hang", HANGS)
def test_an_act_that_hangs_is_ended_and_the_run_goes_on(hang: Callable[[], None]) -> None:
    """It is answered `tool_timeout` with what to do next, and does nothing more."""
    tools = box(hang)
    model = Canned([calls(ToolUse("1", "hangs", {}), ToolUse("2", "fine", {})), says("Done.")])

    result = run_task(Task(OPENING), RunConfig(9, 60.0), TaskContext(model, tools.call))

    assert result.reason is StopReason.COMPLETED
    hung, fine = results(model.requests[1])
    assert hung.is_error
    assert "it had not ended after 0.1 s" in hung.content
    assert fine.content == "fine"
    did = len(DONE)
    time.sleep(0.02)
    assert len(DONE) == did


def test_what_a_hung_act_is_answered_with() -> None:
    """The type, whether to try again, and the hint; what it left is seen to once."""
    began: list[float] = []
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    hung = box(sleeps, on_timeout=began.append).call(ToolCall("1", "hangs", {}))
    assert (hung.status, hung.error_code, hung.retriable) == ("failed", "tool_timeout", True)
    assert "before you do it again" in hung.hint
    assert len(began) == 1
    assert at <= began[0] <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert box(lambda: None, on_timeout=began.append).call(ToolCall("1", "hangs", {})).ok
    assert len(began) == 1


def test_an_act_in_time_is_not_broken_off_later() -> None:
    """Its time ends while something else is done, or while an act with more time runs."""
    within(0.05, lambda: None)
    time.sleep(0.1)
    within(60.0, lambda: time.sleep(0.1))
    with pytest.raises(OutOfTime):
        within(0.05, sleeps)
    time.sleep(0.1)


def test_an_act_within_another_has_no_more_time_than_that() -> None:
    """The inner one is ended with the outer one, which goes on with what is left to it otherwise."""

    for seconds in (60.0, 0.05):

        def outer(inner: float = seconds) -> None:
            with contextlib.suppress(OutOfTime):
                within(inner, sleeps)
            sleeps()

        began = time.monotonic()
        with pytest.raises(OutOfTime):
            within(0.2, outer)
        assert 0.2 <= time.monotonic() - began < 2


def test_what_an_act_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        within(60.0, lambda: 1 / 0)


@pytest.mark.parametrize("raised", [SystemExit(3), GeneratorExit(), MemoryError()])
def test_no_exception_of_a_tool_ends_the_run(raised: BaseException) -> None:
    """Not even one that ends programs."""
    bugs: list[BaseException] = []

    def act() -> None:
        raise raised

    reply = box(act, on_bug=bugs.append).call(ToolCall("1", "hangs", {}))
    assert (reply.error_code, reply.detail) == ("execution_error", "internal")
    assert bugs == [raised]
