"""A run of an agent with a mind: what stands before it, in each way to ask for acts; and its record, once more."""

from __future__ import annotations

import os

from infra.cell.loop.record import standing
from infra.cell.loop.replay import replay
from infra.shared.conversation import ToolResult, ToolUse
from tests.cell.cell import Cell
from tests.cell.loop.replies import calls, says
from tests.cell.minds import PmMind
from tests.cell.run.test_run import work
from tests.shared.mind.notes import item

FILES = {
    "boot/identity.md": "# Identity\nI am the gardener of this repository.\n",
    "memory/long_term.md": "# Long-term memory\n\n" + item("L-000001", "kettle", "The kettle needs 16 amperes."),
}


def test_the_mind_stands_before_a_run_and_its_record_needs_no_file(cell: Cell) -> None:
    PmMind(cell, FILES)
    cell.tell("Connect the kettle.")
    asks = calls(ToolUse("1", "recall", {"words": "kettle electricity ampere"}))
    _, model = work(cell, asks, says("Connected."))
    first, second = model.requests
    uses, shown = (first.messages[at].content for at in (1, 2))
    identity, briefing, *_, found = [
        (use.name, next(iter(use.input.values())), str(got.content))
        for use, got in zip(uses, shown, strict=True)
        if isinstance(use, ToolUse) and isinstance(got, ToolResult)
    ]
    assert briefing[1] == "logs/now.md"
    assert identity == ("read_file", f"{cell.places.mind}/boot/identity.md", FILES["boot/identity.md"])
    assert found[:2] == ("recall", "connect kettle")
    assert "The kettle needs 16 amperes." in found[2]
    assert [tool.name for tool in first.tools][-2:] == ["note", "recall"]
    [answer] = second.messages[-1].content
    assert isinstance(answer, ToolResult)
    assert "reference, not rules" in str(answer.content)

    os.rename(cell.places.mind, f"{cell.places.mind}-gone")
    lines = cell.record()
    assert standing(lines).opened.request.messages == first.messages
    assert replay(lines).differences == ()
