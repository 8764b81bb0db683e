"""A run whose model acts by operations in plain text: its opening, its acts, its report."""

from __future__ import annotations

import json

from infra.cell.doors import ModelFailure
from infra.cell.loop.record import standing
from infra.cell.loop.replay import replay
from infra.cell.run_states import StopReason
from infra.shared.boot import OPERATIONS
from infra.shared.conversation import FIRST_MESSAGE, Completion, Request, Text
from tests.cell.cell import Cell
from tests.cell.loop.replies import bash, calls, says
from tests.cell.run.test_run import work

WRITE = """I write a note, and push it.

```json
[{"type": "createFile", "path": "src/note.md", "content": {"block": "NOTE"}},
 {"type": "shell", "command": "git add src && git commit -qm 'a note' && git push -q origin HEAD:main && echo pushed"},]
```

```block NOTE
# A note
```
"""
REPORT = "The note is written and pushed to main."


def test_it_opens_acts_and_reports(cell: Cell) -> None:
    """No tools in the request; the guide in the prompt; the briefing as an event that nobody asked for; the directive
    is ticked once the model says that those words were its report. The record replays."""
    cell.tell("Write a note.")
    outcome, model = work(cell, says(WRITE), says(REPORT), says("[]"), acts=OPERATIONS)

    assert (outcome.reason, outcome.text) == (StopReason.COMPLETED, REPORT)
    assert cell.open() == []
    assert cell.reported(REPORT)
    first, second = model.requests[:2]
    assert first.tools == ()
    assert first.system[0].startswith("You are")
    assert "# How you act" in first.system[0]
    assert ".signal/bootstrap" in first.system[0]
    [opening] = first.messages
    words, events = opening.content
    assert isinstance(words, Text)
    assert isinstance(events, Text)
    assert words.text == FIRST_MESSAGE
    [briefing] = json.loads(events.text)["events"]
    assert (briefing["type"], briefing["path"], briefing["status"]) == ("readFile", "logs/now.md", "ok")
    assert "Write a note." in briefing["content"]
    [answer] = second.messages[-1].content
    assert isinstance(answer, Text)
    made, ran = json.loads(answer.text)["events"]
    assert (made["status"], ran["stdout"], ran["exit"]) == ("ok", "pushed\n", 0)

    lines = cell.record()
    assert standing(lines).opened.acts == OPERATIONS
    assert replay(lines).differences == ()


def test_a_run_asks_for_acts_as_the_settings_say(cell: Cell) -> None:
    """It goes on as it began, but for one that called tools where a model has none now: that begins anew."""
    cell.tell("Write a note.")

    def cut(request: Request) -> Completion:
        raise ModelFailure("invalid_request", "as the test wants it")

    _, model = work(cell, calls(bash("true")), cut)
    assert model.requests[0].tools
    _, model = work(cell, says('[{"type": "shell", "command": "true"}]'), cut, acts=OPERATIONS)
    assert [(request.tools, len(request.messages)) for request in model.requests] == [((), 1), ((), 3)]
    last, model = work(cell, says(REPORT), says("[]"))
    assert (last.reason, last.text) == (StopReason.COMPLETED, REPORT)
    assert [(request.tools, len(request.messages)) for request in model.requests] == [((), 3), ((), 5)]
