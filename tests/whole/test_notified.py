"""A living agent tells its PM: of a question that waits, and of a directive that is done."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
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
def test_a_pm_is_told_by_command_and_webhook(owner: Owner) -> None:
    """Both channels get both kinds, once each; no word of a report is in them."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    script, out = owner.directory / "script.yaml", owner.directory / "out"
    script.write_text(yaml.safe_dump(SCRIPT))
    owner.minifram("init", "--sandbox", "process")
    settings = {
        "sandbox": "process",
        "model": {"provider": "scripted", "script": str(script)},
        "policy": {"rules": [{"do": "ask", "commands": ["touch *"]}]},
        "notify": {"command": f"cat >>{out}", "webhook": f"http://127.0.0.1:{server.server_address[1]}/"},
    }
    owner.settings.write_text(yaml.safe_dump(settings))
    owner.minifram("up")
    try:
        owner.minifram("tell", "Say something.")
        owner.until(60, lambda: _kinds(posted) == {"done"}, "a notification: done")
        owner.minifram("tell", "Please touch it.")
        owner.until(60, lambda: _kinds(posted) == {"done", "approval"}, "a notification: approval")
        told = owner.until(20, lambda: _both(out.read_text()), "both by the command")
    finally:
        server.shutdown()
        server.server_close()

    assert [each["text"] for each in told] == [each["text"] for each in posted]
    assert told[0]["text"] == "agent: done: Say something."
    [waiting] = owner.json("status")["awaiting_approval"]
    assert f"minifram approve {waiting['id']}" in told[1]["text"]
    assert "secret to the PM" not in json.dumps([told, posted])
    [sent] = [each for each in owner.json("doctor")["results"] if "webhook at 127.0.0.1" in each["text"]]
    assert sent["level"] == "ok"


def _kinds(letters: list[dict[str, Any]]) -> set[str]:
    return {each["kind"] for each in letters}


def _both(text: str) -> list[dict[str, Any]] | None:
    letters = [json.loads(line) for line in text.splitlines()]
    return letters if len(letters) == 2 else None
