"""What is said to a model and by it, in bytes, for the same work done in two ways: ordinary tool calling, which keeps
everything in the conversation as it came, and this loop. The model's part is written down beforehand, so both do the
same; the tools are the real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.stamps import progress
from bench.tables import Figure, Table, Verdict, times
from infra.cell.loop.bash_tool import bash_tool
from infra.cell.loop.context.context import Room
from infra.cell.loop.context.spill import Spill
from infra.cell.loop.file_tools import file_tools
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.loop import Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.toolbox import Toolbox
from infra.shared.conversation import (
    END_TURN,
    FIRST_MESSAGE,
    TOOL_USE,
    Completion,
    Message,
    Request,
    Text,
    ToolUse,
    to_plain,
)
from infra.shared.run_states import StopReason
from infra.shared.settings import LimitSettings

GOAL = 0.5
"""Of ordinary tool calling, on tasks with large outputs."""
EVERYTHING = 1 << 40


class Work(NamedTuple):
    """One task: the calls that a model makes for it, in order."""

    name: str
    large: bool
    """It meets large outputs."""
    calls: tuple[tuple[str, dict[str, Any]], ...]


class Talk(NamedTuple):
    """What was said."""

    sent: int
    received: int
    unchanged: int
    """Of what was sent, bytes that were the beginning of the request before."""


def run(directory: Path) -> Figure:
    rows, verdicts = [], []
    for work in tasks():
        progress("talk", work.name)
        ordinary, ours = (_talk(work, directory / f"{work.name}-{bounded}", bounded) for bounded in (False, True))
        share = (ours.sent + ours.received) / (ordinary.sent + ordinary.received)
        for way, talk in (("ordinary tool calling", ordinary), ("minifram: loop with tools", ours)):
            of_it = (talk.sent + talk.received) / (ordinary.sent + ordinary.received)
            cells = (f"{talk.sent / 1e6:.2f}", f"{talk.received / 1e6:.2f}", f"{talk.unchanged / talk.sent:.0%}")
            rows.append((f"{work.name}: {way}", str(len(work.calls)), *cells, times(of_it)))
        words = f"{work.name}: {times(share)} of the bytes of ordinary tool calling"
        verdicts.append(
            Verdict(share <= GOAL, f"{words}, goal at most {GOAL:g}") if work.large else Verdict(None, words)
        )
    table = Table(
        "bytes sent to and received from a model for the same work",
        ("", "steps", "sent MB", "received MB", "unchanged prefix", "ratio"),
        tuple(rows),
        ("Unchanged prefix: of what was sent, so much was the beginning of the request before it.",),
    )
    return Figure((table,), tuple(verdicts))


def tasks() -> tuple[Work, ...]:
    """Looking through logs, mending what tests complain of, and many small things."""
    logs: list[tuple[str, dict[str, Any]]] = [
        ("bash", {"command": f"seq -f 'line %g of log {n} with some words behind it' 1 {4000 + 500 * n}"})
        for n in range(12)
    ]
    looks: list[tuple[str, dict[str, Any]]] = [("bash", {"command": f"echo found {n}"}) for n in range(12)]
    tests: list[tuple[str, dict[str, Any]]] = [
        step
        for n in range(20)
        for step in (
            ("bash", {"command": f"seq -f 'FAILED tests/test_{n}.py::test_%g - assert 1 == 2' 1 900; exit 1"}),
            ("write_file", {"path": f"src/part_{n % 4}.py", "content": f"value = {n}\n" * 900}),
        )
    ]
    small: list[tuple[str, dict[str, Any]]] = [("bash", {"command": f"echo {n} > file; cat file"}) for n in range(60)]
    mixed = [step for pair in zip(logs, looks, strict=True) for step in pair]
    return (
        Work("logs of 200-500 kB", True, tuple(mixed)),
        Work("tests of 50 kB, files of 10 kB", True, tuple(tests)),
        Work("small steps", False, tuple(small)),
    )


class _Model:
    """Makes the calls in order, and notes what it is sent."""

    def __init__(self, work: Work) -> None:
        self._left = [
            Completion((Text("Next."), ToolUse(f"call-{at}", name, given)), TOOL_USE, "written down")
            for at, (name, given) in enumerate(work.calls)
        ][::-1]
        self._before = b""
        self.talk = Talk(0, 0, 0)

    def __call__(self, request: Request) -> Completion:
        parts = to_plain(request)
        # In the order in which providers cache: tools, system, messages.
        whole = {key: parts[key] for key in ("tools", "system", "messages")}
        sent = json.dumps(whole, ensure_ascii=False).encode()
        reply = self._left.pop() if self._left else Completion((Text("Done."),), END_TURN, "written down")
        received = len(json.dumps(to_plain(reply)["content"], ensure_ascii=False).encode())
        talk, same = self.talk, _same_beginning(self._before, sent)
        self.talk = Talk(talk.sent + len(sent), talk.received + received, talk.unchanged + same)
        self._before = sent
        return reply


def _same_beginning(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _talk(work: Work, directory: Path, bounded: bool) -> Talk:
    """The work done for real in a directory of its own."""
    directory.mkdir()
    limits = LimitSettings()
    model = _Model(work)
    chars = limits.output_chars if bounded else EVERYTHING
    keep = Spill(str(directory)).keep
    room = Room(limits.context_tokens, keep, lambda: "") if bounded else None
    reason = _run(model, _toolbox(directory, chars), room)
    if reason is not StopReason.COMPLETED:
        raise RuntimeError(f"{work.name} ended with {reason}; expected it to be done")
    return model.talk


def _toolbox(directory: Path, chars: int) -> Toolbox:
    place = str(directory)
    return Toolbox((*file_tools(place, chars), bash_tool(place, 60.0, chars, Interruption())))


def _run(model: Callable[[Request], Completion], toolbox: Toolbox, room: Room | None) -> StopReason:
    request = Request(("You act.", "# The page"), (Message("user", (Text(FIRST_MESSAGE),)),), toolbox.tools, "bench")
    context = TaskContext(model, toolbox.call, room=room)
    return run_task(Task(request), RunConfig(1000, 3600.0), context).reason
