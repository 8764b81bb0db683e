"""The layers of ours between a bare client and a whole agent: the official SDK alone, and the model door behind the
runner's client. No shell is run and nothing is recorded: what a step adds to them is the agent's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.steps import serve_runs
from bench.wire_door import WireDoor
from infra.cell.model_client import complete
from infra.shared.conversation import FIRST_MESSAGE, TOOL_USE, Message, Request, Text, ToolResult, ToolSpec, ToolUse

SHOWN = "[exit status 0]"
BASH = ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


def by_sdk(url: str, directory: str) -> str:
    """Anthropic's SDK as a program of a few lines uses it."""
    import anthropic

    client = anthropic.Anthropic(api_key="none", base_url=url)
    tools: Any = [{"name": BASH.name, "description": BASH.description, "input_schema": BASH.input_schema}]
    messages: list[Any] = [{"role": "user", "content": FIRST_MESSAGE}]
    while True:
        with client.messages.stream(
            model="claude-bench", max_tokens=16_000, system="You act.", messages=messages, tools=tools
        ) as stream:
            message = stream.get_final_message()
        messages.append({"role": "assistant", "content": message.content})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": SHOWN}
            for block in message.content
            if block.type == "tool_use"
        ]
        if not results:
            return "Done"
        messages.append({"role": "user", "content": results})


def by_door(door: WireDoor) -> str:
    """The model door, asked as the runner asks it."""
    request = Request(("You act.", "# The page"), (Message("user", (Text(FIRST_MESSAGE),)),), (BASH,), "bench")
    while True:
        completion = complete(door.places.model_socket, request, 60.0)
        if completion.stop_reason != TOOL_USE:
            return "Done"
        calls = [block for block in completion.content if isinstance(block, ToolUse)]
        results = Message("user", tuple(ToolResult(call.id, SHOWN) for call in calls))
        said = Message("assistant", completion.content)
        request = request._replace(messages=(*request.messages, said, results))


def main(layer: str, url: str, directory: Path) -> None:
    if layer == "sdk":
        serve_runs(url, by_sdk)
        return
    directory.mkdir(exist_ok=True)
    door = WireDoor(directory, url)
    try:
        serve_runs(url, lambda url, directory: by_door(door))
    finally:
        door.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
