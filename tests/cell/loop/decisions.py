"""Runs whose model decides by chance: any acts in any order, allowed, denied, asked about, failing; replies of all
kinds; news of the PM and of the runtime. By tools or by operations, with the real tools, on record as runs are."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from infra.cell.actions import ToolResult
from infra.cell.interruption import Interruption
from infra.cell.loop.loop import RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.record import Ended, Opened, RunRecord
from infra.cell.loop.ways import News
from infra.cell.protocol.operations import call_of
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.files import file_tools
from infra.cell.tools.hop import Bootstrap
from infra.cell.tools.tool import SideEffect, Tool, Toolbox, ToolError, Verdict
from infra.shared.boot import OPERATIONS
from infra.shared.conversation import MAX_TOKENS, REFUSAL, Completion, Message, Request, Text, ToolUse

MOST_STEPS = 14
SHOWN = 300
FIELDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("createFile", {"path": "a", "content": "one\ntwo\n"}),
    ("createFile", {"path": "a", "content": "three", "replace": True}),
    ("createFile", {"path": "deep/b.md", "content": "é\r\n```\n"}),
    ("createFile", {"path": "denied", "content": "x"}),
    ("createFile", {"path": ".signal/bootstrap", "content": "no-such-branch"}),
    ("readFile", {"path": "a"}),
    ("readFile", {"path": "a", "offset": 1, "limit": 1}),
    ("readFile", {"path": "none"}),
    ("readFile", {"path": "asked"}),
    ("editFile", {"path": "a", "old": "one", "new": "1"}),
    ("editFile", {"path": "a", "old": "never", "new": "1", "count": 2}),
    ("deleteFile", {"path": "a"}),
    ("deleteFile", {"path": "denied"}),
    ("shell", {"command": "echo out; echo err >&2; exit 3"}),
    ("shell", {"command": "seq 1 400", "timeout": 5}),
    ("shell", {"command": "echo one > a; cat a", "cwd": "."}),
    ("shell", {"command": "pwd", "cwd": "none"}),
    ("shell", {"command": 'curl -H "Authorization: Bearer abcdefgh12" -d password=hunter2 no://x'}),
)
WRONG_OPERATIONS: tuple[dict[str, Any], ...] = (
    {"type": "ls"},
    {"type": "readFile", "path": 7},
    {"type": "shell", "command": "ls", "why": "to look"},
)
WRONG_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (("ls", {}), ("read_file", {"path": 7}), ("bash", {"cmd": "ls"}))
WORDS = ("I think so.", "All is done, and this is the report of it.", "[]", "Yes.", "", '[{"type": "shell"', "null")
LEAVE = ("createFile", {"path": ".signal/bootstrap", "content": "fix"})


class Made(NamedTuple):
    outcome: RunResult
    requests: tuple[Request, ...]
    """What the model was asked, step by step."""


class _Model:
    def __init__(self, chance: random.Random, acts: str) -> None:
        self._chance, self._acts = chance, acts
        self._mood = chance.choice(("lively",) * 7 + ("dull", "broken", "cut"))
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Completion:
        self.requests.append(request)
        chance = self._chance
        roll = chance.random()
        if roll < 0.01:
            return Completion((Text("No."),), REFUSAL, "chance")
        if roll < 0.05 or self._mood == "cut":
            return Completion((Text('[{"type": "shell", "command": "ls"}]'),), MAX_TOKENS, "chance")
        if self._mood == "broken":
            return Completion((Text("[{'type': 'shell', 'command': 'ls'}]"),), "end_turn", "chance")
        if roll < 0.12:
            return Completion((Text(chance.choice(WORDS)),), "end_turn", "chance")
        chosen = [chance.choice(FIELDS) for _ in range(chance.randint(1, 4))]
        chosen += [LEAVE] if roll > 0.97 else []
        chosen = [FIELDS[7]] if self._mood == "dull" else chosen
        if self._acts == OPERATIONS:
            said: list[dict[str, Any]] = [{"type": kind, **fields} for kind, fields in chosen]
            said += [chance.choice(WRONG_OPERATIONS)] if self._mood != "dull" and chance.random() < 0.2 else []
            said += [{"type": "message", "text": "I go on."}] if chance.random() < 0.3 else []
            text = json.dumps(said, ensure_ascii=False)
            return Completion((Text(chance.choice((text, f"So:\n```json\n{text}\n```"))),), "end_turn", "chance")
        uses = [call_of(kind, fields) for kind, fields in chosen]
        calls = [(name, dict(given)) for _, name, given in uses]
        calls += [chance.choice(WRONG_CALLS)] if self._mood != "dull" and chance.random() < 0.2 else []
        step = len(self.requests)
        blocks = [ToolUse(f"call-{step}-{n}", name, given) for n, (name, given) in enumerate(calls)]
        words = [Text("I go on.")] if chance.random() < 0.3 else []
        return Completion((*words, *blocks), "tool_use", "chance")


def make(seed: int, acts: str, directory: Path, transcript: RunRecord) -> Made:
    """One run, on record in `transcript`."""
    chance = random.Random(seed)
    checkout = directory / "bot" / "main" / "minifram"
    checkout.mkdir(parents=True)
    model = _Model(chance, acts)
    waiting: set[str] = set()

    def gate(tool: Tool, given: Mapping[str, Any]) -> Verdict:
        path = given.get("path", "")
        if path == "asked" and path not in granted:
            waiting.add(path)
            return Verdict(False, "the PM is asked (q1)", "awaiting_approval", ("asked q1",))
        return Verdict(path != "denied", "not this one", "denied", ("denied",)) if path != "asked" else Verdict(True)

    granted: set[str] = set()

    def news() -> str | None:
        if waiting and chance.random() < 0.5:
            granted.update(waiting)
            waiting.clear()
            return News(pm="The PM approves call q1.", runtime=chance.choice(("", "90 % of the budget are used.")))
        return chance.choice((None, None, None, "A service ended.", News(pm="Hurry.")))

    def bootstrap(given: Bootstrap, seconds: float) -> ToolResult:
        if given.branch != "fix":
            raise ToolError("origin has no such branch", "Push it first")
        return ToolResult("the watcher will start fix", hands_over=True)

    workspace = (str(checkout), str(directory / "bot")) if acts == OPERATIONS else ()
    toolbox = Toolbox(
        (
            *file_tools(str(checkout), SHOWN, workspace),
            bash_tool(str(checkout), 10, SHOWN, Interruption()),
            Tool("bootstrap", Bootstrap, bootstrap, 1000, SideEffect.AUTH),
        ),
        gate,
    )
    tools = () if acts == OPERATIONS else toolbox.tools
    request = Request(("You are.",), (Message("user", (Text("Continue."),)),), tools, transcript_name(seed, acts))
    transcript.append(Opened(request, acts, ("d1",), MOST_STEPS))

    context = TaskContext(model, toolbox.call, news, transcript.append, lambda: bool(waiting))
    outcome = run_task(Task(request, acts), RunConfig(MOST_STEPS, 1000), context)
    transcript.append(Ended(outcome.reason.value, outcome.steps))
    return Made(outcome, tuple(model.requests))


def transcript_name(seed: int, acts: str) -> str:
    return f"2026-01-31T10{seed // 60:02}{seed % 60:02}.000Z-{'ab'[acts == OPERATIONS] * 8}"
