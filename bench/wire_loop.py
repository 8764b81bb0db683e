"""Whole runs of our loop behind a real model door: the runner's tools, gate, client and patience, without its page."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.steps import serve_runs
from bench.wire_door import WireDoor
from infra.cell.loop.context.context import Room
from infra.cell.loop.context.spill import Spill
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.loop import Answered, Event, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.registry import Verdict
from infra.cell.loop.seed_tools import seed_tools
from infra.cell.policy.gate import gate_of
from infra.cell.runner.context import runner_context
from infra.cell.runner.file_effects import FileEffects
from infra.cell.runner.patient_model import PatientModel
from infra.cell.runner.transcript import Transcript
from infra.shared.boot import OPERATIONS, Boot
from infra.shared.conversation import FIRST_MESSAGE, Message, Request, Text
from infra.shared.paths import Paths
from infra.shared.policy import DENY, Policy, Rule, to_text
from infra.shared.protocol.guide import guide
from infra.shared.settings import Settings, runner_limits

SYSTEM, PAGE = "You act.", "# The page"
REFUSED = "sealed/"
"""No file below is written: the PM's policy refuses it."""
MOST_SECONDS, MOST_STEPS = 120.0, 1000


def run(places: Paths, acts: str, checkout: str) -> str:
    """One run in `checkout`; gives its end."""
    policy = to_text(Policy(rules=(Rule(DENY, tools=("write_file",), paths=(f"{REFUSED}*",), why="sealed"),)))
    limits = runner_limits(Settings())
    boot = Boot("0" * 32, "main", "0" * 40, "bench", places.remote, "merge", places, limits, policy=policy, acts=acts)
    interruption = Interruption()
    context = runner_context(boot, checkout, interruption)
    gate = gate_of(policy, checkout, _nobody_is_asked)
    is_for_events = acts == OPERATIONS
    toolbox = seed_tools(boot, checkout, context.git, interruption, gate=gate, is_for_events=is_for_events)
    tools = () if is_for_events else toolbox.tools
    system = f"{SYSTEM}\n\n{guide()}" if is_for_events else SYSTEM
    request = Request((system, PAGE), (Message("user", (Text(FIRST_MESSAGE),)),), tools, secrets.token_hex(4))
    transcript = Transcript(f"{checkout}/logs/transcripts/{request.unit}.jsonl", request.unit, context.log)
    transcript.opened(request, [], MOST_STEPS, acts=acts)
    files = FileEffects(checkout)

    def record(event: Event) -> None:
        transcript.add(event)
        if isinstance(event, Answered):
            files.mark()

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    ask = PatientModel(context, wait, transcript.model_failed, time.monotonic() + MOST_SECONDS).complete
    room = Room(limits.context_tokens, Spill(checkout).keep, lambda: "")
    live = TaskContext(ask, toolbox.call, record=record, changed=files.changed, room=room)
    return run_task(Task(request, acts), RunConfig(MOST_STEPS, MOST_SECONDS), live).reason.value


def _nobody_is_asked(tool: str, given: Mapping[str, Any], why: str) -> Verdict:
    raise AssertionError("unreachable: no rule asks")


if __name__ == "__main__":
    place = Path(sys.argv[3])
    os.makedirs(place, exist_ok=True)
    door = WireDoor(place, sys.argv[1])
    try:
        serve_runs(sys.argv[1], lambda url, directory: run(door.places, sys.argv[2], directory))
    finally:
        door.close()
