"""The examples of the protocol, as a document holds them, and how they are played."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from infra.cell.loop.actions import ToolResult
from infra.cell.loop.hop_tools import BOOTSTRAP
from infra.cell.loop.registry import SideEffect, Tool, Verdict
from infra.cell.loop.toolbox import Toolbox
from tests.cell.loop.workbench import Workbench

_FENCE = "`" * 4
_SAID = re.compile(rf"^{_FENCE}text\n(.*?)^{_FENCE}$", re.MULTILINE | re.DOTALL)
_EVENTS = re.compile(rf"^{_FENCE}json\n(.*?)^{_FENCE}$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    title: str
    about: str
    replies: tuple[str, ...]
    """Of the model, in order."""


def gate(tool: Tool, given: Mapping[str, Any]) -> Verdict:
    waits = "git push" in given.get("command", "")
    return Verdict(not waits, "the PM is asked about this call (q1) and has not answered yet", "awaiting_approval")


def bootstrap(given: Mapping[str, Any], seconds: float) -> ToolResult:
    return ToolResult(f"the watcher will start {given['branch']}", hands_over=True)


def play(example: Example, directory: Path) -> list[list[dict[str, Any]]]:
    """The events of each reply, in a workspace with one document."""
    bench = Workbench(directory, gate)
    bench.clone.joinpath("docs").mkdir()
    bench.clone.joinpath("docs/plan.md").write_text("# Plan\n\n- [ ] ship\n")
    tools = (*bench.tools, Tool(BOOTSTRAP, bootstrap, 1000, SideEffect.AUTH))
    bench.toolbox = Toolbox(tools, gate)
    return [bench.reply(reply) for reply in example.replies]


def text_of(example: Example, answers: list[list[dict[str, Any]]]) -> str:
    parts = [f"\n## {example.title}\n", *([f"\n{example.about}\n"] if example.about else [])]
    for reply, events in zip(example.replies, answers, strict=True):
        lines = ",\n".join("  " + json.dumps(event, ensure_ascii=False) for event in events)
        message = f'{{"protocol": 1, "events": [\n{lines}\n]}}' if events else '{"protocol": 1, "events": []}'
        parts.append(
            f"\nThe agent:\n\n{_FENCE}text\n{reply}{_FENCE}\n\nThe runtime:\n\n{_FENCE}json\n{message}\n{_FENCE}\n"
        )
    return "".join(parts)


def read_examples(document: str) -> list[tuple[Example, list[list[dict[str, Any]]]]]:
    """Each with the events that it must get."""
    found = []
    for section in document.split("\n## ")[1:]:
        title = section.split("\n", 1)[0]
        answers = [json.loads(events)["events"] for events in _EVENTS.findall(section)]
        found.append((Example(title, "", tuple(_SAID.findall(section))), answers))
    return found
