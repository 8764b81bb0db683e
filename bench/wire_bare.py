"""The reference of a step at the wire: http.client, a list of messages and subprocess.run, and nothing else."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

from bench.provider import OPENAI
from bench.steps import serve_runs

MOST = 10_000
"""Characters of a result, as mini-swe-agent's."""


def run(url: str, directory: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Continue."}]
    while True:
        connection.request("POST", OPENAI, json.dumps({"messages": messages}), {"content-type": "application/json"})
        message = json.loads(connection.getresponse().read())["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", ()):
            command = json.loads(call["function"]["arguments"])["command"]
            if command.startswith("echo COMPLETE_TASK"):
                return "Submitted"
            done = subprocess.run(["bash", "-c", command], cwd=directory, capture_output=True, text=True, check=False)
            shown = done.stdout if len(done.stdout) < MOST else done.stdout[: MOST // 2] + done.stdout[-MOST // 2 :]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": shown})


if __name__ == "__main__":
    serve_runs(sys.argv[1], run)
