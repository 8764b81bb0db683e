"""One step of the loop without the model, which answers at once: a `bash` call of `true`, and its result put into the
next request. Beside mini-swe-agent and the shell alone; and in a long conversation. mini-swe-agent runs /bin/sh."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.peers import MINI, installed, mini
from bench.tables import Table, goal, ratio, rounds, timed, times
from infra.cell.interruption import Interruption
from infra.cell.loop.context import Room
from infra.cell.loop.loop import Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.run_states import StopReason
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.tool import Toolbox
from infra.shared.conversation import FIRST_MESSAGE, Message, Request, Text
from tests.cell.cell import limits
from tests.cell.loop.replies import Canned, bash, calls, says

ROUNDS = 30
STEPS, LONG_STEPS = 10, 1000
"""Of one conversation."""
LONG_LIMIT = 1.5
BARE, OURS, LONG = (
    'subprocess.run(["bash", "-c", "true"])',
    "minifram: loop, toolbox, bash tool",
    "the same, 1000 steps",
)


def run(directory: Path, count: int) -> list[Table]:
    there, notes = installed(MINI)
    ways: dict[str, Callable[[int], float]] = {
        BARE: timed(subprocess.run, ["bash", "-c", "true"]),
        OURS: lambda _: _ours(str(directory), STEPS),
    }
    ways |= {name: lambda _: float(mini(directory, "steps", str(STEPS))) for name in there}
    took = rounds(count, ways)
    took[LONG] = [_ours(str(directory), LONG_STEPS)]
    grown = goal("a step among a thousand", ratio(took[LONG], took[OURS]), LONG_LIMIT)
    return [times(f"one step without the model, the mean of {STEPS}", took, grown, *notes)]


def _ours(here: str, steps: int) -> float:
    """A step's seconds in one conversation of so many calls of the bash tool."""
    bounds = limits()
    toolbox = Toolbox([bash_tool(here, bounds.bash_seconds, bounds.output_chars, Interruption())])
    # The number makes no difference to the shell; without it the loop would see the same thing done again and again.
    acts = (calls(bash(f"true {number}", f"call-{number}"), text="Next.") for number in range(steps))
    model = Canned([*acts, says("Done.")])
    request = Request(("You act.",), (Message("user", (Text(FIRST_MESSAGE),)),), toolbox.tools, "bench")
    room = Room(bounds.context_tokens, lambda: "")
    began = time.perf_counter()
    result = run_task(Task(request), RunConfig(steps + 1, 3600.0), TaskContext(model, toolbox.call, room=room))
    if result.reason is not StopReason.COMPLETED:
        raise RuntimeError(f"the loop ended with {result}; expected its last reply")
    return (time.perf_counter() - began) / steps
