"""Chat Completions: OpenAI's models, and those of servers that speak it as OpenAI does. Its package would bring nothing
here but a second reader of the stream.

What the format has no place for is said in another way: a failed tool's result begins with `ERROR: `, and images of a
result follow in a user's message. Ids that OpenAI would refuse, of calls that another provider made, become others,
always the same ones."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from infra.keep.model_door.call import EVENTS, Body, Dialect
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.reply import CALL, REFUSAL_TEXT, TEXT, THOUGHT, Part, StreamedReply, event_in, usage_in
from infra.keep.model_door.thoughts import Thoughts
from infra.keep.model_door.tool_calls import plain_id
from infra.shared import conversation
from infra.shared.conversation import Image, Message, Request, Text, ToolResult, ToolUse, Usage, of_kind

FAILED = "ERROR: "
_NO_TOOLS_BESIDE_REASONING = re.compile(r"gpt-(5\.[4-9]|[6-9])")
"""These models refuse tools over Chat Completions unless they are told not to reason first ("Function tools with
reasoning_effort are not supported …", July 2026). gpt-6-astra and gpt-6.1-sol refuse that as well: not with tools."""


def body(request: Request, model: str, max_tokens: int, _: Thoughts) -> Body:
    messages = system_message(request)
    for message in request.messages:
        messages += _assistant(message) if message.role == "assistant" else _user(message)
    made: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "max_completion_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        made["tools"] = functions(request)
        if _NO_TOOLS_BESIDE_REASONING.match(model):
            made["reasoning_effort"] = "none"
    return Body(msgspec.json.encode(made))


def joined_system(request: Request) -> str:
    return "\n\n".join(text for text in request.system if text.strip())


def system_message(request: Request) -> list[dict[str, Any]]:
    system = joined_system(request)
    return [{"role": "system", "content": system}] if system else []


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


def text_of(message: Message) -> str:
    return "\n\n".join(block.text for block in of_kind(Text, message.content) if block.text.strip())


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
        {"role": "tool", "tool_call_id": plain_id(result.tool_use_id), "content": result_text(result)}
        for result in of_kind(ToolResult, message.content)
    ]
    text, images = text_of(message), images_beside(message)
    content = [_part(part) for part in (*images, *([Text(text)] if text else []))] if images else text
    return made + ([{"role": "user", "content": content}] if content else [])


def _part(block: Text | Image) -> Any:
    if isinstance(block, Text):
        return block
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{block.data}"}}


def _assistant(message: Message) -> list[dict[str, Any]]:
    calls = [
        {
            "id": plain_id(call.id),
            "type": "function",
            "function": {"name": call.name, "arguments": msgspec.json.encode(call.input).decode()},
        }
        for call in of_kind(ToolUse, message.content)
    ]
    said = {"role": "assistant", "content": text_of(message) or None} | ({"tool_calls": calls} if calls else {})
    return [said] if calls or said["content"] else []


_REASONS = {
    "stop": conversation.END_TURN,
    "tool_calls": conversation.TOOL_USE,
    "length": conversation.MAX_TOKENS,
    "content_filter": conversation.REFUSAL,
}
_PIECES = {TEXT: "content", REFUSAL_TEXT: "refusal", THOUGHT: "reasoning_content"}


def take(reply: StreamedReply, data: bytes) -> None:
    """One event; usage counts from the reason on: what some servers tell before is what it is so far. Raises
    BrokenReply and ProviderError."""
    if data == b"[DONE]":
        return reply.end(closes=True)
    chunk = event_in(data)
    if chunk.get("error"):
        raise fault_of(chunk["error"])
    reply.model = str(chunk.get("model") or reply.model)
    match chunk.get("choices"):
        case [dict(choice)] if choice.get("index", 0) == 0 and isinstance(choice.get("delta", {}), dict):
            _grow(reply, choice.get("delta", {}))
            reply.stop(choice.get("finish_reason"), _REASONS)
        case [] | None:
            pass
        case other:
            raise BrokenReply(f"one choice was asked for, and {str(other)[:100]} came")
    if usage := chunk.get("usage"):
        reply.count(usage_of(usage, "prompt", "completion"), is_last=bool(reply.reason))
    return None


def _grow(reply: StreamedReply, delta: dict[str, Any]) -> None:
    for kind, name in _PIECES.items():
        reply.say(kind, delta.get(name))
    for call in delta.get("tool_calls") or ():
        match call:
            case {"index": int(n)} if n >= 0 and isinstance(call.get("function") or {}, dict):
                function = call.get("function") or {}
                part = reply.parts.get(n) or reply.open(n, Part(CALL))
                id, name = (str(told or "") for told in (call.get("id"), function.get("name")))
                told = plain_id(id) if id else part.id, name or part.name
                if not all(before in ("", now) for before, now in zip((part.id, part.name), told, strict=True)):
                    raise BrokenReply(f"tool call {n} is {(part.id, part.name)} and then {told}")
                part.id, part.name = told
                reply.grow(n, function.get("arguments") or "")
            case _:
                raise BrokenReply("a tool call has another shape")


def usage_of(told: Any, prompt: str, completion: str) -> Usage | None:
    """OpenAI counts what is cached within the prompt; here each token stands in one class. None for figures that
    contradict each other."""
    details = told.get(f"{prompt}_tokens_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    fresh = told[f"{prompt}_tokens"] - read - written
    counts = dict(zip(Usage.__struct_fields__, (fresh, told[f"{completion}_tokens"], written, read), strict=True))
    return None if fresh < 0 <= min(read, written) else usage_in(counts)


def fault_of(error: Any) -> ProviderError:
    if not isinstance(error, dict):
        return ProviderError("error", str(error))
    named = next((error[key] for key in ("code", "type") if isinstance(error.get(key), str) and error[key]), "error")
    return ProviderError(named, str(error.get("message") or "no message"))


CHAT = Dialect("/chat/completions", EVENTS, body, take)
