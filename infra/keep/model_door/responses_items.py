"""Items of a conversation in the form of the Responses API: as they are sent, so they are compared with what is
remembered; pure."""

from __future__ import annotations

import json
from typing import Any

from infra.keep.model_door.responses_events import Item, Part
from infra.keep.model_door.tool_calls import plain_id
from infra.shared.conversation import ToolUse


def message_item(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def call_item(call: ToolUse) -> dict[str, Any]:
    arguments = json.dumps(call.input, ensure_ascii=False)
    return {"type": "function_call", "call_id": plain_id(call.id), "name": call.name, "arguments": arguments}


def reasoning_item(item: Item) -> dict[str, Any]:
    """What the provider takes back of it; it alone can read the rest."""
    made = {"type": item.type, "id": item.id, "summary": _parts(item.summary), "content": _parts(item.content)}
    sent = {key: value for key, value in made.items() if value or key == "summary"}
    return sent | {"encrypted_content": item.encrypted_content}


def _parts(parts: list[Part] | None) -> list[dict[str, str]]:
    return [{"type": part.type, "text": part.text} for part in parts or ()]
