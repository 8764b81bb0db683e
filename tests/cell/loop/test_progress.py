"""Whether a run gets on, by what comes of its steps."""

from __future__ import annotations

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.progress import (
    DENIED_TO_END,
    IDLE_TO_END,
    Progress,
    RunConfig,
    stop_reason,
)
from infra.cell.run_states import StopReason

CONFIG = RunConfig(99, 99.0)


def reason(it: Progress) -> StopReason | None:
    return stop_reason(CONFIG, it, 1, 1.0)


def call(what: str = "") -> ToolCall:
    return ToolCall("1", "do", {"what": what})


def after(it: Progress, *results: ToolResult, what: str = "") -> Progress:
    return it.after([call(what)] * len(results), results)


def test_steps_that_repeat_are_counted_until_one_does_not() -> None:
    """Other arguments, another result, or a word of somebody's."""
    it = after(Progress(), ToolResult("same"))
    for nth in range(1, IDLE_TO_END):
        it = after(it, ToolResult("same"))
        assert (it.idle, reason(it)) == (nth, None)
    assert reason(after(it, ToolResult("same"))) is StopReason.NO_OP_LOOP
    assert after(it, ToolResult("other")).idle == after(it, ToolResult("same"), what="else").idle == 0
    assert after(it, ToolResult("same"), ToolResult("other")).idle == 0
    assert after(it.heard(), ToolResult("same")).idle == 1


def test_steps_of_denials_alone_are_counted() -> None:
    """One act that is carried out begins the count anew, and so does a word of the PM's."""
    denied = [ToolResult.err("denied", str(nth)) for nth in range(2)]
    it = Progress()
    for _ in range(DENIED_TO_END):
        assert reason(it) is None
        it = after(it, *denied)
    assert reason(it) is StopReason.POLICY_DENIED
    assert it.failed == 0, "nothing was tried"
    assert after(it, ToolResult("done"), denied[0]).denied == 0
    assert it.heard().denied == 0


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (ToolResult.err("unknown_tool", "no such tool"), 2),
        (ToolResult("x", facts={"exit": 1}), 2),
        (ToolResult("", facts={"exit": 137}), 2),
        (ToolResult("", facts={"exit": 1, "stderr": "no such file"}), 2),
        (ToolResult("", facts={"exit": 1, "stderr": ""}), 0),
        (ToolResult("x", facts={"exit": 0}), 0),
        (ToolResult("[exit status 1] is what it says"), 0),
        (ToolResult.err("awaiting_approval", "asked"), 1),
        (ToolResult.err("denied", "no"), 1),
        (ToolResult.err("not_run", "not run: ..."), 1),
    ],
)
def test_what_counts_as_failed(result: ToolResult, failed: int) -> None:
    """A command by its status, but a search that finds nothing is an answer; what was not carried out is neither."""
    it = after(Progress(failed=1), result)
    assert it.failed == failed
    assert (stop_reason(CONFIG._replace(max_failures=2), it, 1, 1.0) is StopReason.MAX_FAILURES) is (failed == 2)
