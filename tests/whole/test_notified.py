"""A living agent tells its PM: of a question that waits, and of a directive that is done."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.whole.owner import Owner

SCRIPT = {
    "scenes": [
        {
            "name": "it asks",
            "when": {"directive": "touch"},
            "replies": [
                {"tools": [{"name": "bash", "input": {"command": "touch asked"}}]},
                {"text": "I have asked."},
                {"text": "It is touched."},
            ],
        },
        {"name": "anything", "replies": [{"text": "Heard, and secret to the PM."}]},
    ]
}


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_a_pm_is_told_by_a_command(owner: Owner) -> None:
    """Once of each; no word of a report is in it."""
    script, out = owner.directory / "script.yaml", owner.directory / "out"
    script.write_text(yaml.safe_dump(SCRIPT))
    owner.minifram("init", "--sandbox", "process")
    settings: dict[str, Any] = {
        "sandbox": "process",
        "model": {"provider": "scripted", "name": str(script)},
        "policy": {"rules": [{"do": "ask", "commands": ["touch *"]}]},
    }
    owner.settings.write_text(yaml.safe_dump(settings))
    owner.minifram("up")  # without a sender: the looks are ours
    owner.settings.write_text(yaml.safe_dump(settings | {"notify": {"command": f"cat >>{out}"}}))
    owner.minifram("notify", "--once")
    owner.minifram("tell", "Say something.")
    owner.until(60, lambda: not owner.json("status")["open_directives"], "a directive is done")
    owner.minifram("notify", "--once")
    owner.minifram("tell", "Please touch it.")
    [waiting] = owner.until(60, lambda: owner.json("status")["awaiting_approval"], "a question")
    owner.minifram("notify", "--once")
    owner.minifram("notify", "--once")

    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert [[item["kind"] for item in each["items"]] for each in told] == [["done"], ["approval"]]
    assert told[0]["text"].endswith(" done: Say something.")
    assert f"minifram approve {waiting['id']}" in told[1]["text"]
    assert "secret to the PM" not in json.dumps(told)
