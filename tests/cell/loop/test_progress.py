"""Whether a run gets on, by what comes of its steps."""

from __future__ import annotations

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.progress import Progress, RunConfig, stop_reason
from infra.cell.run_states import StopReason
from tests.shared.rows import each_row

CONFIG = RunConfig(99, 99.0, max_failures=2)


def call(what: str = "") -> ToolCall:
    return ToolCall("1", "do", {"what": what})


def after(it: Progress, *results: ToolResult, what: str = "") -> Progress:
    return it.after([call(what)] * len(results), results)


def test_what_begins_a_count_anew() -> None:
    """Other arguments, another result, or a word of somebody's. When a run ends by its counts, its own tests say."""
    it = after(after(Progress(), ToolResult("same")), ToolResult("same"))
    assert it.idle == 1
    assert after(it, ToolResult("other")).idle == after(it, ToolResult("same"), what="else").idle == 0
    assert after(it, ToolResult("same"), ToolResult("other")).idle == 0
    assert after(it.heard(), ToolResult("same")).idle == 1
    denied = ToolResult.err("denied", "no")
    it = after(Progress(), denied, denied)
    assert (it.denied, it.failed, it.heard().denied, after(it, ToolResult("done"), denied).denied) == (1, 0, 0, 0)


@each_row(
    "result, failed",
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
    assert (stop_reason(CONFIG, it, 1, 1.0) is StopReason.MAX_FAILURES) is (failed == 2)
