"""The examples of the protocol, as a document holds them, and how they are played."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.ways import event_of, said
from infra.cell.tools.hop import Bootstrap
from infra.cell.tools.tool import Tool, Toolbox, Verdict
from infra.shared.conversation import OPENING_PREFIX
from infra.shared.people import AGENT
from infra.shared.policy import AUTH
from infra.shared.repository.git import Git
from tests.cell.loop.workbench import Workbench

_FENCE = "`" * 4
_SAID = re.compile(rf"^{_FENCE}text\n(.*?)^{_FENCE}$", re.MULTILINE | re.DOTALL)
_EVENTS = re.compile(rf"^{_FENCE}json\n(.*?)^{_FENCE}$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    title: str
    replies: tuple[str, ...]
    """Of the model, in order."""
    opens_with: tuple[str, ...] = ()
    """Files that the runtime shows unasked, before the first reply."""


SHOWN = 200
"""Characters of a result; short, so that the documents are."""
ASKED = "git push"
GRANTED = "The PM approves call q1: make it again, with the same arguments."


class Pm:
    """Is asked about a push, and allows it two replies later."""

    def __init__(self) -> None:
        self.replies = 0
        self.asked_at = 0

    def gate(self, tool: Tool, given: Mapping[str, Any]) -> Verdict:
        if ASKED not in given.get("command", "") or 0 < self.asked_at < self.replies - 1:
            return Verdict(True)
        self.asked_at = self.replies
        return Verdict(False, "the PM is asked about this call (q1) and has not answered yet", "awaiting_approval")

    def news(self) -> list[dict[str, Any]]:
        """What the PM says after a reply."""
        self.replies += 1
        granted = self.asked_at and self.replies == self.asked_at + 2
        return [said(GRANTED, "pm")] if granted else []


def bootstrap(given: Bootstrap) -> ToolResult:
    return ToolResult(f"the watcher will start {given.branch}", hands_over=True)


def play(example: Example, directory: Path) -> list[list[dict[str, Any]]]:
    """The events of each reply, in a workspace with one document that can be pushed; first those of the opening."""
    pm = Pm()
    bench = Workbench(directory, pm.gate, SHOWN)
    bench.clone.joinpath("docs").mkdir()
    bench.clone.joinpath("docs/plan.md").write_text("# Plan\n\n- [ ] ship\n")
    if any(ASKED in reply for reply in example.replies):
        for words in (f"init -q --bare {directory}/remote", f"init -q {bench.clone}"):
            subprocess.run(["git", *words.split()], check=True)
        git = Git(str(bench.clone), AGENT)
        git("remote", "add", "origin", f"{directory}/remote")
        git("add", ".")
        git("commit", "-qm", "a plan")
    tools = (*bench.tools, Tool("bootstrap", Bootstrap, bootstrap, 1000, AUTH))
    bench.toolbox = Toolbox(tools, pm.gate)
    pm.replies = 1
    shown = [
        ToolCall(f"{OPENING_PREFIX}{n}", "read_file", {"path": path}) for n, path in enumerate(example.opens_with, 1)
    ]
    opening = [event_of(call, bench.toolbox.call(call)) for call in shown]
    return [*([opening] if opening else []), *(bench.reply(reply) + pm.news() for reply in example.replies)]


def read_examples(document: str) -> list[tuple[Example, list[list[dict[str, Any]]]]]:
    """Each with the events that it must get."""
    found = []
    for section in document.split("\n## ")[1:]:
        title = section.split("\n", 1)[0]
        answers = [json.loads(events)["events"] for events in _EVENTS.findall(section)]
        is_opened = section.index("The runtime:") < section.index("The agent:")
        opens_with = tuple(event["path"] for event in answers[0]) if is_opened else ()
        found.append((Example(title, tuple(_SAID.findall(section)), opens_with), answers))
    return found
