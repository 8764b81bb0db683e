"""OpenAI's models over the Responses API, where they reason while they use tools.

Nothing is stored there: what a model reasoned comes encrypted, stays in the door's memory (`thoughts`) and goes back
with the call that it led to. The runner never has it, so it can neither read nor forge it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from infra.keep.model_door.call import EVENTS, Body, Dialect
from infra.keep.model_door.chat import (
    fault_of,
    functions,
    images_beside,
    joined_system,
    result_text,
    text_of,
    usage_of,
)
from infra.keep.model_door.errors import BrokenReply
from infra.keep.model_door.reply import CALL, REFUSAL_TEXT, TEXT, THOUGHT, Part, StreamedReply, event_in
from infra.keep.model_door.thoughts import Place, Thoughts
from infra.keep.model_door.tool_calls import plain_id
from infra.shared import conversation
from infra.shared.conversation import Completion, Image, Message, Request, Text, ToolResult, ToolUse, Usage, of_kind

Items = list[dict[str, Any]]
_DOES_NOT_REASON = re.compile(r"(gpt-3|gpt-4|chatgpt-4)")
"""These models refuse to be asked for encrypted reasoning."""
_encode = msgspec.json.Encoder().encode


def body(request: Request, model: str, max_tokens: int, thoughts: Thoughts) -> Body:
    system = joined_system(request)
    tools = [{"type": "function", **each["function"], "strict": False} for each in functions(request)]
    place = Place(thoughts, _encode(tools), system.encode())
    turns = [
        place.after(_encode(_said(message) if message.role == "assistant" else _user(message)), message.role)
        for message in request.messages
    ]
    items = b",".join(turn[1:-1] for turn in turns if len(turn) > len(b"[]"))
    made: dict[str, Any] = {"model": model, "input": msgspec.Raw(b"[" + items + b"]"), "max_output_tokens": max_tokens}
    made |= {"stream": True, "store": False}
    made |= {"instructions": system} if system else {}
    made |= {"tools": tools} if tools else {}
    made |= {} if _DOES_NOT_REASON.match(model) else {"include": ["reasoning.encrypted_content"]}
    return Body(_encode(made), place.digest)


def _said(message: Message) -> Items:
    made: Items = []
    for block in message.content:
        if isinstance(block, Text) and block.text.strip():
            made.append(_message("assistant", block.text))
        elif isinstance(block, ToolUse):
            call = {"name": block.name, "arguments": _encode(block.input).decode()}
            made.append({"type": "function_call", "call_id": plain_id(block.id)} | call)
    return made


def _user(message: Message) -> Items:
    """Each result is an item of its own and comes first."""
    made: Items = [
        {"type": "function_call_output", "call_id": plain_id(result.tool_use_id), "output": result_text(result)}
        for result in of_kind(ToolResult, message.content)
    ]
    text = text_of(message)
    parts = [_part(part) for part in (*images_beside(message), *([Text(text)] if text else []))]
    return made + ([_message("user", parts)] if parts else [])


def _message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{block.media_type};base64,{block.data}"}


_REASONS = {
    "completed": conversation.END_TURN,
    "max_output_tokens": conversation.MAX_TOKENS,
    "content_filter": conversation.REFUSAL,
}
_KINDS = {"message": TEXT, "function_call": CALL, "reasoning": THOUGHT}
_DELTAS = (
    *("response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta"),
    *("response.reasoning_summary_text.delta", "response.reasoning_text.delta"),
)
_KNOWN = (
    *(*_DELTAS, "response.created", "response.output_item.added", "response.output_item.done"),
    *("response.completed", "response.incomplete", "response.failed"),
)


def take(reply: StreamedReply, data: bytes) -> None:
    """One event. Raises BrokenReply and ProviderError."""
    if data == b"[DONE]":
        return
    event = event_in(data)
    match event:
        case {"type": "error"}:
            raise fault_of(event.get("error") or event | {"type": ""})
        case {"type": "response.created", "response": dict(response)}:
            reply.begin(str(response.get("model") or ""))
        case {"type": "response.failed", "response": dict(response)}:
            reply.count(_usage(response), is_last=True)
            raise fault_of(response.get("error") or {})
        case {"type": "response.output_item.added", "output_index": int(n), "item": {"type": str(kind)} as item}:
            id, name = str(item.get("call_id") or ""), str(item.get("name") or "")
            reply.open(n, Part(_KINDS.get(kind, kind), id and plain_id(id), name))
        case {"type": str(kind), "output_index": int(n), "delta": piece} if kind in _DELTAS:
            reply.grow(n, piece)
            if kind == "response.refusal.delta":
                reply.parts[n].kind = REFUSAL_TEXT
        case {"type": "response.output_item.done", "output_index": int(n), "item": dict(item)}:
            if item.get("status") in (None, "completed"):
                reply.close(n)
            _finish(reply.parts[n], item)
        case {"type": "response.completed", "response": dict(response)}:
            if response.get("status") not in (None, "completed"):
                raise BrokenReply(f"the response is completed, and its status is {response.get('status')!r}")
            if response.get("error") or (response.get("incomplete_details") or {}).get("reason"):
                raise BrokenReply("the response is completed, and says why it is not")
            _end(reply, response, "completed")
        case {"type": "response.incomplete", "response": {"incomplete_details": {"reason": str(reason)}} as response}:
            _end(reply, response, reason)
        case {"type": str(kind)} if kind not in _KNOWN:
            pass
        case _:
            raise BrokenReply(f"an event has another shape than {event.get('type')!r} has")


def _finish(part: Part, item: dict[str, Any]) -> None:
    """What an item tells at its end alone: what goes back of it with the next request. Raises BrokenReply."""
    if part.kind == CALL and item.get("arguments") != part.text:
        raise BrokenReply("a tool call is done, and its arguments are not those that came")
    if part.kind == THOUGHT:
        secret = item.get("encrypted_content")  # no summary was asked for, so there is none to give back
        part.wire = {"type": "reasoning", "id": item.get("id"), "summary": [], "encrypted_content": secret}
    elif item.get("phase"):
        part.wire = {"phase": item["phase"]}


def _end(reply: StreamedReply, response: dict[str, Any], reason: str) -> None:
    reply.model = str(response.get("model") or reply.model)
    reply.count(_usage(response), is_last=True)
    reply.stop(reason, _REASONS)
    reply.end()


def _usage(response: dict[str, Any]) -> Usage | None:
    return usage_of(response["usage"], "input", "output") if response.get("usage") else None


def turn(reply: StreamedReply, completion: Completion) -> tuple[bytes, bytes]:
    """As the runner will show it again, and as the provider wants it back: with its reasoning, but for what nothing
    follows or came without its encrypted content, which would be refused."""
    said = iter(_said(Message("assistant", completion.content)))
    whole: Items = []
    for part in reply.parts.values():
        if part.kind in (TEXT, REFUSAL_TEXT) and part.text.strip():
            whole.append(next(said) | part.wire)
        elif part.kind == CALL:
            whole.append(next(said))
        elif part.kind == THOUGHT and part.wire.get("encrypted_content"):
            whole.append(part.wire)
    while whole and whole[-1]["type"] == "reasoning":
        whole.pop()
    return _encode(_said(Message("assistant", completion.content))), _encode(whole)


RESPONSES = Dialect("/responses", EVENTS, body, take, turn)
