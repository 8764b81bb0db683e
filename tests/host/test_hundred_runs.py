"""Runs of both ways, replayed from their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.cell.loop.record import Acted, Answered, parse, standing
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import Message, to_plain
from infra.shared.secret_shapes import redacted_value
from tests.cell.loop.decisions import make, transcript_name
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
        lines = parse(path.read_bytes())
        assert standing(lines).opened.acts == acts
        again = [standing(lines[:at]).messages for at, line in enumerate(lines) if isinstance(line, Answered)]
        assert [as_told(messages) for messages in again] == [as_told(each.messages) for each in made.requests], name
        statuses.update(each.detail or "ok" for each in lines if isinstance(each, Acted))
    assert len(ends) >= 8, ends
    wanted = {"ok", "denied", "awaiting_approval", "refused", "invalid_arguments", "unknown_tool", "not_run"}
    assert statuses.keys() >= wanted, statuses


def as_told(messages: Sequence[Message]) -> object:
    return redacted_value([to_plain(message) for message in messages])
