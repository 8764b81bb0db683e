"""OpenAI's models over Chat Completions, and those of servers that speak it as OpenAI does. Its package would bring
nothing here but a second reader of the stream.

What the format has no place for is said in another way: a failed tool's result begins with `ERROR: `, and images of a
result follow in a user's message. Ids that OpenAI would refuse, of calls that another provider made, become others,
always the same ones."""

from __future__ import annotations

import json
import re
from typing import Any

from infra.keep.model_door.chat_stream import ChatReply
from infra.keep.model_door.streaming import Exchange, StreamingModel, most_usage
from infra.keep.model_door.tool_calls import plain_id
from infra.shared.conversation import Image, Message, Request, Text, ToolResult, ToolUse


class ChatModel(StreamingModel):
    """Calls of one model."""

    provider = "openai"
    example_url = "https://api.openai.com/v1"
    path = "/chat/completions"

    def exchange(self, request: Request) -> Exchange:
        made = {**body(request, self.name, self.max_tokens), "stream": True}
        return Exchange(made, ChatReply(self.name, most_usage(made, self.max_tokens, request.images)))


FAILED = "ERROR: "
_NO_TOOLS_BESIDE_REASONING = re.compile(r"gpt-(5\.[4-9]|[6-9])")
"""These models refuse tools over Chat Completions unless they are told not to reason first ("Function tools with
reasoning_effort are not supported …", July 2026). gpt-6-astra and gpt-6.1-sol refuse that as well: not with tools."""


def body(request: Request, model: str, max_tokens: int) -> dict[str, Any]:
    """The arguments of a Chat Completions call, all but `stream`."""
    system = "\n\n".join(text for text in request.system if text.strip())
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in request.messages:
        messages += _assistant(message) if message.role == "assistant" else _user(message)
    made: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "max_completion_tokens": max_tokens,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        made["tools"] = functions(request)
        if _NO_TOOLS_BESIDE_REASONING.match(model):
            made["reasoning_effort"] = "none"
    return made


def functions(request: Request) -> list[dict[str, Any]]:
    """The tools, in the form that OpenAI found and others took over."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
        }
        for tool in request.tools
    ]


def result_text(result: ToolResult) -> str:
    return FAILED + result.content if result.is_error else result.content


def texts_of(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, Text) and block.text.strip()]


def images_beside(message: Message) -> list[Text | Image]:
    """All images of a user's message, those of results with words that say whose they are."""
    made: list[Text | Image] = []
    for block in message.content:
        if isinstance(block, ToolResult) and block.images:
            made += [Text(f"Shown by the call {plain_id(block.tool_use_id)}:"), *block.images]
        elif isinstance(block, Image):
            made.append(block)
    return made


def _user(message: Message) -> list[dict[str, Any]]:
    """Each result is a message of its own and comes first, as the provider demands."""
    made: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": plain_id(block.tool_use_id), "content": result_text(block)}
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    texts, images = texts_of(message), images_beside(message)
    content = [_part(part) for part in (*images, *map(Text, texts))] if images else _content(texts)
    return made + ([{"role": "user", "content": content}] if content else [])


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{block.data}"}}


def _assistant(message: Message) -> list[dict[str, Any]]:
    calls = [
        {
            "id": plain_id(block.id),
            "type": "function",
            "function": {"name": block.name, "arguments": json.dumps(block.input, ensure_ascii=False)},
        }
        for block in message.content
        if isinstance(block, ToolUse)
    ]
    texts = texts_of(message)
    if not calls and not texts:
        return []
    return [{"role": "assistant", "content": _content(texts)} | ({"tool_calls": calls} if calls else {})]


def _content(texts: list[str]) -> str | list[dict[str, str]] | None:
    """One text is a string, which every server takes; several keep their borders."""
    if len(texts) > 1:
        return [{"type": "text", "text": text} for text in texts]
    return texts[0] if texts else None
