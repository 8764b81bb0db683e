"""Our conversation as the body of a Messages request; pure.

The provider caches prefixes in the order tools, system, messages, at up to four marks: the last tool, SYSTEM.md,
the last system text, and the end of the last user messages with what is left."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from infra.keep.model_door.thinking import Thoughts
from infra.shared.conversation import Block, Message, Request, Text, ToolResult, ToolUse

MAX_MARKS = 4
MARKED_MESSAGES = 2
_MARK = {"type": "ephemeral"}

TOKENS_BESIDE_BYTES = 4096
"""Tokens that no byte of the request stands for: the provider's own words around tools, a few hundred in all its
price lists, and slack."""


def body(request: Request, model: str, max_tokens: int, thoughts: Thoughts) -> tuple[dict[str, Any], str]:
    """The arguments of a Messages call, and the fingerprint of everything in it that a thought can be bound to."""
    tools = [tool._asdict() for tool in request.tools]
    system = [{"type": "text", "text": text} for text in request.system if text.strip()]
    messages = [wire for message in request.messages if (wire := _message(message))["content"]]
    messages, fingerprint = _with_thoughts(messages, [tools, system], thoughts)
    _mark(tools, system, messages)
    made: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": messages}
    return made | ({"system": system} if system else {}) | ({"tools": tools} if tools else {}), fingerprint


def most_input_tokens(made: dict[str, Any]) -> int:
    """No token of text stands for less than one byte, and the JSON around the text covers the frames of messages."""
    return len(json.dumps(made, ensure_ascii=False).encode()) + TOKENS_BESIDE_BYTES


def _message(message: Message) -> dict[str, Any]:
    """Results come first, as the provider demands; text of nothing but white space it refuses, so it is left out."""
    blocks = [block for block in message.content if not (isinstance(block, Text) and not block.text.strip())]
    blocks.sort(key=lambda block: not isinstance(block, ToolResult) if message.role == "user" else 0)
    return {"role": message.role, "content": [_block(block) for block in blocks]}


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolUse(id, name, input):
            return {"type": "tool_use", "id": id, "name": name, "input": input}
        case ToolResult(tool_use_id, content, is_error):
            wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
            return wire | ({"is_error": True} if is_error else {})


def _with_thoughts(
    messages: list[dict[str, Any]], before: list[Any], thoughts: Thoughts
) -> tuple[list[dict[str, Any]], str]:
    digest = hashlib.sha256(_canonical(before))
    whole = []
    for message in messages:
        if message["role"] == "assistant":
            message = {**message, "content": thoughts.recalled(message["content"], digest.hexdigest())}
        digest.update(_canonical(message))
        whole.append(message)
    return whole, digest.hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _mark(tools: list[dict[str, Any]], system: list[dict[str, Any]], messages: list[dict[str, Any]]) -> None:
    """Put the marks on; on copies, because blocks may be remembered ones."""
    left = MAX_MARKS
    for blocks, places in ((tools, {len(tools) - 1}), (system, {0, len(system) - 1})):
        for place in places:
            if blocks:
                blocks[place] = {**blocks[place], "cache_control": _MARK}
                left -= 1
    ends = [message for message in messages if message["role"] == "user"][-min(left, MARKED_MESSAGES) :]
    for message in ends:
        *rest, last = message["content"]
        message["content"] = [*rest, {**last, "cache_control": _MARK}]
