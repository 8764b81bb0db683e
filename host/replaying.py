"""A run of the agent's, played once more here: nobody is asked, and nothing of what it did is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from host import runs
from host.homes import Home
from host.trouble import Trouble
from infra.contract.exit_codes import Exit
from infra.loop.recorded import Recorded, recorded
from infra.loop.replay import Replay, replay
from infra.loop.seed_tools import SEED_TOOLS

MOST_LINES = 100_000


def replayed(home: Home, name: str) -> tuple[str, Replay]:
    """Its whole name, and what came of it. Raises Trouble when there is no such run, or nobody can read it."""
    try:
        run: Recorded = recorded(_lines(runs.steps(home, name)))
    except ValueError as error:
        raise Trouble(Exit.FAILURE, f"the run {name!r} cannot be replayed: {error}") from None
    return run.run_id, replay(run, {tool.name: tool for tool in SEED_TOOLS})


def _lines(steps: Iterator[runs.Step]) -> Iterator[dict[str, Any]]:
    """Raises ValueError when there is no end of them."""
    for number, step in enumerate(steps):
        if number == MOST_LINES:
            raise ValueError(f"its transcript has over {MOST_LINES} lines")
        yield {"at": step.at, "kind": step.kind, **step.facts}
