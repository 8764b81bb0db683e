"""A real run notes what the PM says; the next one is shown it, and the branch holds it."""

from __future__ import annotations

from infra.cell.runner.wakes import Wakes
from infra.cell.runner.work import Next, Work
from infra.shared.conversation import Completion, Request, ToolUse
from tests.cell.loop.replies import Canned, calls, says
from tests.cell.runner.cell import Cell


def test_what_the_pm_says_is_memory_after_the_run_and_shown_to_the_next(cell: Cell) -> None:
    cell.git_of_mind()
    cell.tell("Deploys run from the branch release only. Make one.")
    words = {"subject": "deploys", "statement": "Deploys run from the branch release only."}
    note = ToolUse("1", "note", {**words, "quote": "Deploys run from the branch release only"})
    asked: list[Request] = []

    def sees(request: Request) -> Completion:
        asked.append(request)
        return says("Done.")

    context = cell.context(Canned([calls(note), says("Done."), sees]))
    wakes = Wakes(cell.places.git_socket, context.log, context.interruption)
    work = Work(context, wakes)
    assert work.look(ticked=False) is Next.LOOK_AGAIN
    kept = cell.bare("show", "mind:memory/long_term.md")
    assert "## L-000001 deploys\nStatement: Deploys run from the branch release only." in kept
    assert "Origin: directive" in kept
    assert "Source: logs/events/" in kept
    cell.tell("From which branch do deploys run?")
    work.look(ticked=True)
    assert "Deploys run from the branch release only." in str(asked[0].messages)
    wakes.close()
