"""A whole self-upgrade through the official Anthropic SDK: the provider is a loopback server that speaks its
streaming wire format; all else is what a PM would run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.keep.model_door.wire import Answer, Broken, Reaction, Say, Status, Use, Wire, error_event
from tests.whole.owner import POLITER, Owner

KEY = "sk-ant-test-0123456789abcdefghijklmnop"
DIRECTIVE = "Improve yourself on branch politer: end each report with a thank you."
IMPROVEMENT = "set -e\ncd {clone}\n" + POLITER


class Claude:
    """What the provider says; it judges by the conversation alone, as a model does."""

    def __init__(self, bot: Path) -> None:
        self._clone = f"{bot}/politer/minifram"
        self.calls = 0

    def __call__(self, request: dict[str, Any]) -> Reaction:
        self.calls += 1
        if self.calls == 1:
            return Status(529, "overloaded_error", "Overloaded", (("retry-after", "1"),))
        if self.calls == 2:
            cut = Answer((Say("I begin"), Use("bash", {"command": "touch never-run"})))
            return Broken(cut, events=4, extra=error_event("overloaded_error", "Overloaded"))
        page = request["system"][1]["text"]
        if re.search(r"politer@[0-9a-f]+ merged into main", page):
            return [Say("The branch politer validated itself and is merged.")]
        turns = [m for m in request["messages"] if m["role"] == "assistant"][1:]  # the first is the runner's own
        match len(turns):
            case 0:
                return [
                    Say("I look around and make a clone for the branch."),
                    Use("read_file", {"path": "spec/SPEC_SIGNALS.md"}),
                    Use("bash", {"command": f'git clone -q "$(git remote get-url origin)" {self._clone}; echo cloned'}),
                    Use("read_file", {"path": "no/such/file"}),
                ]
            case 1:
                results = request["messages"][-1]["content"]
                asked = [block["id"] for block in turns[0]["content"] if block["type"] == "tool_use"]
                assert [r["tool_use_id"] for r in results] == asked
                assert ["SPEC: signals" in str(results[0]), "cloned" in str(results[1])] == [True, True]
                assert [bool(r.get("is_error")) for r in results] == [False, False, True]
                return [
                    Use("bash", {"command": IMPROVEMENT.format(clone=self._clone)}),
                    Use("bash", {"command": "true"}),
                ]
            case _:
                return [Say("Now I hop."), Use("bootstrap", {"branch": "politer"})]


@pytest.mark.fault("F70")
@pytest.mark.heavy
@pytest.mark.timeout(480)
def test_a_hop_under_the_real_sdk(owner: Owner) -> None:
    """Text, tools, results, parallel calls and error turns on the wire; a merged, running improvement at the end."""
    claude = Claude(owner.bot)
    with Wire(claude) as wire:
        owner.minifram("init", "--sandbox", "process")
        settings = {"sandbox": "process", "model": {"provider": "anthropic", "base_url": wire.url}}
        owner.settings.write_text(yaml.safe_dump(settings))
        owner.make_clone()
        owner.keep_one_test()
        owner.env["ANTHROPIC_API_KEY"] = KEY
        owner.minifram("up")
        del owner.env["ANTHROPIC_API_KEY"]
        owner.minifram("tell", DIRECTIVE)
        report = owner.told("done: Improve yourself", 120)
        status = owner.json("status")
    assert report.partition("\n#### ")[0].rstrip().endswith("is merged. Thank you."), "beneath is the keep's record"
    assert status["branch"] == "main"
    assert not list(owner.bot.rglob("never-run"))
    first = next(r for r in wire.requests if r.body)
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.body["messages"][0] == {"role": "user", "content": [{"type": "text", "text": "Continue."}]}
    assert [block["text"].splitlines()[0] for block in first.body["system"]] == ["# Who you are", "# COMMS"]
    assert all("cache_control" in block for block in first.body["system"])
    for path in owner.directory.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), f"the key is in {path}"
