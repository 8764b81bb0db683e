"""Runs of both ways, replayed from their records."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.loop.loop import Acted, Event, Task, TaskContext, run_task
from infra.cell.loop.player import Player
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.recorded import Recorded, recorded
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import Completion, Message, Request, to_plain
from infra.shared.secret_shapes import redacted_value
from tests.cell.loop.decisions import MOST_STEPS, make, transcript_name
from tests.host.desk import Desk
from tests.host.test_runs import transcript


@pytest.mark.heavy
@pytest.mark.parametrize("runs", [40, pytest.param(100, marks=pytest.mark.long)])
def test_runs_of_both_ways_are_replayed_event_for_event(desk: Desk, tmp_path: Path, runs: int) -> None:
    """`runs --replay` finds no difference; and what the model is told again, message by message, is what it was
    told, but for the secrets that no record holds."""
    ends = Counter[str]()
    statuses = Counter[str]()
    for number in range(runs):
        acts = (TOOLS, OPERATIONS)[number % 2]
        name = transcript_name(number, acts)
        made = make(number, acts, tmp_path / str(number), transcript(desk, name))
        ends[made.outcome.reason.value] += 1
        shown = desk.run("runs", name, "--replay", "--json")
        assert (shown.code, shown.json["differences"]) == (0, []), (name, shown.json)

        path = Path(desk.home().places.bot) / "main/minifram/logs/transcripts" / f"{name}.jsonl"
        run = recorded(json.loads(line) for line in path.read_text().splitlines())
        assert run.acts == acts
        again, seen = played(run)
        assert [as_told(messages) for messages in again] == [as_told(each.messages) for each in made.requests], name
        statuses.update(each.result.detail or "ok" for each in seen)
    assert len(ends) >= 8, ends
    wanted = {"ok", "denied", "awaiting_approval", "refused", "invalid_arguments", "unknown_tool", "not_run"}
    assert statuses.keys() >= wanted, statuses


def played(run: Recorded) -> tuple[list[tuple[Message, ...]], list[Acted]]:
    """What the model is asked when the record is played to the loop, and what is done."""
    asked: list[tuple[Message, ...]] = []
    seen: list[Event] = []

    def complete(request: Request) -> Completion:
        asked.append(request.messages)
        return context.complete(request)

    def nobody(request: Request) -> Completion:
        raise ModelFailure("unavailable", "the record ends here")

    def nothing(call: ToolCall) -> ToolResult:
        raise AssertionError(call)

    context = Player(run, TaskContext(nobody, nothing)).context
    run_task(
        Task(run.request, run.acts),
        RunConfig(MOST_STEPS, 1000),
        context._replace(complete=complete, record=seen.append),
    )
    return asked[: run.steps], [each for each in seen if isinstance(each, Acted)]


def as_told(messages: tuple[Message, ...]) -> object:
    return redacted_value([to_plain(message) for message in messages])
