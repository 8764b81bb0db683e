"""Ollama's `/api/chat`: models of a server on this machine or another. There is no key, and nothing to pay."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from infra.keep.model_door.call import LINES, Body, Dialect
from infra.keep.model_door.chat import functions, images_beside, result_text, system_message, text_of
from infra.keep.model_door.errors import ProviderError
from infra.keep.model_door.reply import CALL, TEXT, THOUGHT, Part, StreamedReply
from infra.keep.model_door.thoughts import Thoughts
from infra.keep.model_door.tool_calls import plain_id
from infra.shared import conversation
from infra.shared.conversation import Image, Message, Request, Text, ToolResult, ToolUse, Usage, of_kind


def body(request: Request, model: str, max_tokens: int, _: Thoughts) -> Body:
    """A conversation that is too long is refused there, never quietly cut."""
    messages = system_message(request)
    names: dict[str, str] = {}
    for message in request.messages:
        names |= {call.id: call.name for call in of_kind(ToolUse, message.content)}
        messages += _assistant(message) if message.role == "assistant" else _user(message, names)
    made: dict[str, Any] = {"model": model, "messages": messages}
    made |= {"tools": functions(request)} if request.tools else {}
    made |= {"options": {"num_predict": max_tokens}, "stream": True, "truncate": False, "shift": False}
    return Body(msgspec.json.encode(made))


def _user(message: Message, names: dict[str, str]) -> list[dict[str, Any]]:
    """Each result is a message of its own and comes first; its images follow in a message with all of them."""
    made: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_name": names.get(result.tool_use_id, ""),
            "tool_call_id": result.tool_use_id,
            "content": result_text(result),
        }
        for result in of_kind(ToolResult, message.content)
    ]
    beside = images_beside(message)
    texts = [text.text for text in of_kind(Text, beside)] + [text_of(message)]
    images = [image.data for image in of_kind(Image, beside)]
    said = {"role": "user", "content": "\n\n".join(filter(None, texts))} | ({"images": images} if images else {})
    return made + ([said] if images or said["content"] else [])


def _assistant(message: Message) -> list[dict[str, Any]]:
    calls = [
        {"id": call.id, "function": {"index": place, "name": call.name, "arguments": call.input}}
        for place, call in enumerate(of_kind(ToolUse, message.content))
    ]
    said = {"role": "assistant", "content": text_of(message)} | ({"tool_calls": calls} if calls else {})
    return [said] if calls or said["content"] else []


_REASONS = {"stop": conversation.END_TURN, "length": conversation.MAX_TOKENS}


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    """As it came: what was read once no longer tells that a key stood there twice."""


class _Call(msgspec.Struct, frozen=True):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct, frozen=True):
    content: str = ""
    thinking: str = ""
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct, frozen=True):
    model: str = ""
    message: _Message = _Message()
    done: bool = False
    done_reason: str = ""
    prompt_eval_count: conversation.Count | None = None
    eval_count: conversation.Count | None = None
    error: Any = None


def take(reply: StreamedReply, data: bytes) -> None:
    """One line. Calls come whole; older servers give them no ids, so they get new ones. Raises ProviderError."""
    line = msgspec.json.decode(data, type=_Line)
    if line.error:
        raise ProviderError("error", str(line.error))
    reply.model = line.model or reply.model
    reply.say(THOUGHT, line.message.thinking)
    reply.say(TEXT, line.message.content)
    for call in line.message.tool_calls or ():
        id = plain_id(call.id) if call.id else f"call_{uuid.uuid4().hex[:24]}"
        place = len(reply.parts)
        reply.open(place, Part(CALL, id, call.function.name))
        reply.grow(place, bytes(call.function.arguments).decode())
    if line.done:
        if line.prompt_eval_count is not None and line.eval_count is not None:
            reply.count(Usage(line.prompt_eval_count, line.eval_count), is_last=True)
        reply.stop(line.done_reason, _REASONS)
        reply.end(closes=True)


OLLAMA = Dialect("/api/chat", LINES, body, take)
