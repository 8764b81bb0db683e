"""OpenAI's models over the Responses API, where they reason while they use tools.

Nothing is stored there: what a model reasoned comes encrypted, stays in the door's memory (`thinking`) and goes back
with the call that it led to. The runner never has it, so it can neither read nor forge it."""

from __future__ import annotations

import re
from typing import Any

from infra.keep.model_door.chat import result_text
from infra.keep.model_door.connection import MAX_BYTES
from infra.keep.model_door.keys import Key
from infra.keep.model_door.responses_items import call_item, message_item
from infra.keep.model_door.responses_stream import ResponsesReply
from infra.keep.model_door.streaming import THINKING_SILENCE, Exchange, StreamingModel, most_usage
from infra.keep.model_door.thinking import Thoughts, with_thoughts
from infra.keep.model_door.tool_calls import plain_id
from infra.keep.model_settings import Choice
from infra.shared.conversation import (
    TOOL_USE,
    Completion,
    Image,
    Message,
    Request,
    Text,
    ToolResult,
    ToolUse,
)

Items = list[dict[str, Any]]

_DOES_NOT_REASON = re.compile(r"(gpt-3|gpt-4|chatgpt-4)")
"""These models refuse to be asked for encrypted reasoning."""


class ResponsesModel(StreamingModel):
    """Calls of one model."""

    provider = "openai"
    example_url = "https://api.openai.com/v1"
    path = "/responses"
    longest_silence = THINKING_SILENCE

    def __init__(self, choice: Choice, idle_seconds: float, key: Key, most_bytes: int = MAX_BYTES) -> None:
        super().__init__(choice, idle_seconds, key, most_bytes)
        self._thoughts = Thoughts()

    def exchange(self, request: Request) -> Exchange:
        made, fingerprint = body(request, self.name, self.max_tokens, self._thoughts)
        most = most_usage(made, self.max_tokens, request.images)
        return Exchange({**made, "stream": True}, ResponsesReply(self.name, most, THINKING_SILENCE), fingerprint)

    def completed(self, exchange: Exchange, completion: Completion) -> None:
        if completion.stop_reason == TOOL_USE and isinstance(exchange.reply, ResponsesReply):
            self._thoughts.remember(exchange.reply.items_to_send_back(), exchange.fingerprint)


def body(request: Request, model: str, max_tokens: int, thoughts: Thoughts) -> tuple[dict[str, Any], str]:
    """The arguments of a call, all but `stream`, and the fingerprint of everything in it that reasoning is bound to."""
    system = "\n\n".join(text for text in request.system if text.strip())
    tools = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
            "strict": False,
        }
        for tool in request.tools
    ]
    said = (
        (message.role, _assistant(message) if message.role == "assistant" else _user(message))
        for message in request.messages
    )
    turns, fingerprint = with_thoughts(said, [tools, system], thoughts)
    made: dict[str, Any] = {
        "model": model,
        "input": [item for _, items in turns for item in items],
        "max_output_tokens": max_tokens,
        "store": False,
    }
    if system:
        made["instructions"] = system
    if tools:
        made["tools"] = tools
    if not _DOES_NOT_REASON.match(model):
        made["include"] = ["reasoning.encrypted_content"]
    return made, fingerprint


def _assistant(message: Message) -> Items:
    made: Items = []
    for block in message.content:
        if isinstance(block, Text) and block.text.strip():
            made.append(message_item("assistant", block.text))
        elif isinstance(block, ToolUse):
            made.append(call_item(block))
    return made


def _user(message: Message) -> Items:
    """Each result is an item of its own and comes first."""
    made: Items = [
        {"type": "function_call_output", "call_id": plain_id(block.tool_use_id), "output": _output(block)}
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    parts = [
        _part(block)
        for block in message.content
        if isinstance(block, Image) or (isinstance(block, Text) and block.text.strip())
    ]
    return made + ([message_item("user", parts)] if parts else [])


def _output(result: ToolResult) -> str | Items:
    if not result.images:
        return result_text(result)
    told = Text(result_text(result))
    return [_part(part) for part in (*((told,) if told.text.strip() else ()), *result.images)]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{block.media_type};base64,{block.data}"}
