"""Steps of the real loop with the real tools, on replies that are made beforehand; with a transcript and the mind's
events, or without."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable

from bench.steps import between, serve
from infra.cell.loop.context.context import Room
from infra.cell.loop.context.spill import Spill
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.loop import Event, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.registry import Position
from infra.cell.loop.seed_tools import seed_tools
from infra.cell.mind.recorder import Recorder
from infra.cell.runner.log import logger
from infra.cell.runner.transcript import Transcript
from infra.shared.boot import Boot, Limits
from infra.shared.conversation import END_TURN, FIRST_MESSAGE, TOOL_USE, Completion, Message, Request, Text, ToolUse
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from infra.shared.run_states import StopReason


def _reply(call: ToolUse) -> Completion:
    return Completion((Text("Nothing to it."), call), TOOL_USE, "scripted")


def steps(count: int) -> list[float]:
    """One conversation of `count` calls of the bash tool."""
    here = os.getcwd()
    boot = _boot(here)
    toolbox = seed_tools(boot, here, Git(here, AGENT), Interruption())
    # The number makes no difference to the shell; without it the loop would see the same thing done again and again.
    replies = [_reply(ToolUse(f"call-{number}", "bash", {"command": f"true {number}"})) for number in range(count)]
    replies.append(Completion((Text("Done."),), END_TURN, "scripted"))
    sent: list[float] = []
    received: list[float] = []

    def complete(request: Request) -> Completion:
        sent.append(time.perf_counter())
        reply = replies[len(received)]
        received.append(time.perf_counter())
        return reply

    request = Request(("You act.",), (Message("user", (Text(FIRST_MESSAGE),)),), toolbox.tools, "bench")
    room = Room(boot.limits.context_tokens, Spill(here).keep, lambda: "")
    context = TaskContext(complete, toolbox.call, room=room)
    if sys.argv[1] in ("transcript", "events"):
        transcript = Transcript(f"{here}/transcripts/{secrets.token_hex(8)}.jsonl", "bench", logger(boot))
        transcript.opened(request, [], count)
        record = _with_events(transcript.add, here) if sys.argv[1] == "events" else transcript.add
        context = context._replace(record=record)
    result = run_task(Task(request), RunConfig(count + 1, 3600.0), context)
    if result.reason is not StopReason.COMPLETED:
        raise RuntimeError(f"the loop ended with {result}; expected its last reply")
    return between(received, sent)


def _with_events(record: Callable[[Event], None], here: str) -> Callable[[Event], None]:
    recorder = Recorder(f"{here}/mind", here, Position("bench"), tuple, time.time, lambda word, **facts: None)
    recorder.begin("Do it.", ["0123abcd"])

    def both(event: Event) -> None:
        record(event)
        recorder.record(event)

    return both


def _boot(here: str) -> Boot:
    limits = Limits(
        bash_seconds=600.0,
        output_chars=10_000,
        unit_steps=200,
        unit_seconds=7200.0,
        validation_seconds=900.0,
        work_seconds=600.0,
        door_seconds=10.0,
        context_tokens=150_000,
    )
    return Boot("0" * 32, "main", "0" * 40, "bench", here, "merge", Paths(here, here, here, here), limits)


if __name__ == "__main__":
    serve(steps)
