"""A whole self-upgrade by a model without tool calling: plain text with lists of operations, with the slips that such
models make; the provider is a loopback server, all else is what a PM would run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cell.loop.ways import NOTHING_WAS_DONE
from tests.keep.model_door.wire import Reaction, Say, Wire
from tests.whole.owner import POLITER, Owner

DIRECTIVE = "Improve yourself on branch politer: end each report with a thank you."
REPORT = "The branch politer validated itself and is merged."


class Talker:
    """What the provider says; it judges by the conversation alone, as a model does."""

    def __init__(self, bot: Path) -> None:
        self._clone = f"{bot}/politer/minifram"
        self.seen: list[list[dict[str, Any]]] = []
        """The events of each request."""

    def __call__(self, request: dict[str, Any]) -> Reaction:
        assert not request.get("tools")
        text = request["messages"][-1]["content"][-1]["text"]
        self.seen.append(json.loads(text)["events"])
        turns = [message for message in request["messages"] if message["role"] == "assistant"]
        page = request["system"][1]["text"]
        if re.search(r"politer@[0-9a-f]+ merged into main", page):
            return [Say(REPORT if not turns else "[]")]
        return [Say(self._work(len(turns)))]

    def _work(self, turn: int) -> str:
        clone = json.dumps(f'git clone -q "$(git remote get-url origin)" {self._clone} && echo cloned')
        match turn:
            case 0:
                return "<think>First a clone.</think>\nI will make a clone of the branch now."
            case 1:  # a fence with a capital, prose around, a trailing comma, a file that is not there
                return (
                    "Right, a list:\n``` JSON\n"
                    f'[{{"type": "shell", "command": {clone}}},\n {{"type": "readFile", "path": "no/such/file"}},]\n'
                    "```\nThen I go on."
                )
            case 2:  # single quotes: nothing is done
                return "[{'type': 'shell', 'command': 'touch never-run'}]"
            case 3:  # cut in the middle: nothing is done
                return '```json\n[{"type": "shell", "command": "touch never-run"}, {"type": "createFile", "path": "a'
            case 4:  # a single operation, a script in a block, and another operation of no type of ours
                return (
                    f'[{{"type": "createFile", "path": "{self._clone}/change.sh", "content": {{"block": "SH"}}}},\n'
                    ' {"type": "bash", "command": "touch never-run"},\n'
                    f' {{"type": "shell", "command": "bash change.sh && rm -f change.sh", "cwd": "{self._clone}"}}]\n\n'
                    f"```block SH\nset -e\nmv change.sh ../change.sh\n{POLITER.strip()}\n```\n"
                )
            case _:
                return '{"type": "createFile", "path": ".signal/bootstrap", "content": "politer\\n"}</code>'


@pytest.mark.long
@pytest.mark.timeout(480)
def test_a_hop_by_plain_text(owner: Owner) -> None:
    """What is whole is done, what may be cut or means another thing is not; a merged, running improvement."""
    talker = Talker(owner.bot)
    with Wire(talker) as wire:
        owner.minifram("init", "--sandbox", "process")
        model = {"provider": "anthropic", "base_url": wire.url, "tools": False}
        settings = {"sandbox": "process", "model": model}
        owner.settings.write_text(yaml.safe_dump(settings))
        owner.make_clone()
        owner.keep_one_test()
        owner.env["ANTHROPIC_API_KEY"] = "sk-ant-test-0123456789abcdefghijklmnop"
        owner.minifram("up")
        owner.minifram("tell", DIRECTIVE)
        report = owner.told("done: Improve yourself", 120)
    words = report.partition("\n#### ")[0].rstrip()
    assert words.endswith(f"{REPORT}\n\n{NOTHING_WAS_DONE} Thank you."), "the run before the hop did it all"
    assert not list(owner.bot.rglob("never-run"))
    opening, prose, first, quotes, cut, made = talker.seen[:6]
    assert ("readFile", "logs/now.md") in [(each["type"], each.get("path")) for each in opening]
    assert "asks for no act" in prose[0]["text"]
    assert [event["status"] for event in first] == ["ok", "failed"]
    assert "no JSON" in quotes[0]["text"]
    assert "or cut: Unterminated string" in cut[0]["text"]
    assert [event["status"] for event in made] == ["ok", "failed", "ok"]
