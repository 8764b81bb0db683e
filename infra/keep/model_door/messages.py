"""Anthropic's Messages, sent through the official SDK. It gets its key, its address and its connection from here and
nothing from the environment; it follows no redirect and retries nothing.

Our conversation is this format, so blocks are encoded as they are. The provider caches prefixes in the order tools,
system, messages, at up to four marks: the last tool, SYSTEM.md, the last system text, and the end of the last
user messages with what is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from infra.keep.model_door.call import EVENTS, Body, Dialect, StreamedModel
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.reply import CALL, TEXT, THOUGHT, Part, StreamedReply, event_in, usage_in
from infra.keep.model_door.thoughts import Place, Thoughts
from infra.shared import conversation
from infra.shared.conversation import Completion, Image, Message, Request, Text, ToolResult, ToolUse, Usage, of_kind

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

MAX_MARKS = 4
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_encode = msgspec.json.Encoder().encode


def body(request: Request, model: str, max_tokens: int, thoughts: Thoughts) -> Body:
    tools = _encode(request.tools)
    system = [_encode(Text(text)) for text in request.system if text.strip()]
    place = Place(thoughts, tools, *system)
    turns = [
        (message.role, place.after(_encode(blocks), message.role))
        for message in request.messages
        if (blocks := _blocks(message))
    ]
    marked = {0, len(system) - 1} if system else set()
    left = MAX_MARKS - len(marked) - bool(request.tools)
    ends = [n for n, (role, _) in enumerate(turns) if role == "user"][-left:]
    made: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "stream": True}
    if request.tools:
        made["tools"] = msgspec.Raw(tools[:-2] + _MARK + b"]")
    if system:
        texts = [text[:-1] + _MARK if n in marked else text for n, text in enumerate(system)]
        made["system"] = [msgspec.Raw(text) for text in texts]
    made["messages"] = [
        {"role": role, "content": msgspec.Raw(content[:-2] + _MARK + b"]" if n in ends else content)}
        for n, (role, content) in enumerate(turns)
    ]
    return Body(_encode(made), place.digest)


def _blocks(message: Message) -> list[Any]:
    """Results come first, as the provider demands; text of nothing but white space it refuses, so it is left out."""
    blocks = [block for block in message.content if type(block) is not Text or block.text.strip()]
    if message.role == "assistant":
        return blocks
    blocks.sort(key=lambda block: type(block) is not ToolResult)
    return [_with_images(block) for block in blocks]


def _with_images(block: Any) -> Any:
    match block:
        case Image():
            source = {"type": "base64", "media_type": block.media_type, "data": block.data}
            return {"type": "image", "source": source}
        case ToolResult(content=text, images=(_, *_) as images):
            told = (Text(text),) if text.strip() else ()
            made = msgspec.to_builtins(block._replace(images=()))
            return made | {"content": [*told, *map(_with_images, images)]}
    return block


_REASONS = {
    "end_turn": conversation.END_TURN,
    "stop_sequence": conversation.END_TURN,
    "tool_use": conversation.TOOL_USE,
    "max_tokens": conversation.MAX_TOKENS,
    "model_context_window_exceeded": conversation.MAX_TOKENS,
    "refusal": conversation.REFUSAL,
}
_KINDS = {"text": TEXT, "tool_use": CALL, "thinking": THOUGHT, "redacted_thinking": THOUGHT}
_PIECES = {
    (TEXT, "text_delta"): "text",
    (CALL, "input_json_delta"): "partial_json",
    (THOUGHT, "thinking_delta"): "thinking",
}
_IN_REPLY = ("content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop")
_CLASSES = {
    **{"input_tokens": "input_tokens", "output_tokens": "output_tokens"},
    **{"cache_write_tokens": "cache_creation_input_tokens", "cache_read_tokens": "cache_read_input_tokens"},
}


def take(reply: StreamedReply, data: bytes) -> None:
    """One event; kinds of events, blocks and deltas that are not known are passed over. Raises BrokenReply and
    ProviderError."""
    event = event_in(data)
    match event:
        case {"type": "error", "error": {"type": str(kind), "message": str(words)}}:
            raise ProviderError(kind, words)
        case {"type": str(kind)} if kind in _IN_REPLY and not reply.began:
            raise BrokenReply(f"{kind} came before the reply")
        case {"type": "message_start", "message": {"model": str(model), "usage": dict(usage)}}:
            reply.begin(model)
            reply.count(_usage(usage), is_last=False)
        case {"type": "content_block_start", "index": int(n), "content_block": dict(block)}:
            kind = str(block["type"])
            if block.get("input"):
                raise BrokenReply("a tool call begins with its arguments; expected them in pieces")
            seal = "data" if kind == "redacted_thinking" else "signature"
            wire = {"type": kind, seal: block.get(seal) or ""}
            id, name = str(block.get("id") or ""), str(block.get("name") or "")
            reply.open(n, Part(_KINDS.get(kind, kind), id, name, wire))
            if kind in ("text", "thinking"):
                reply.grow(n, block.get(kind) or "")
        case {"type": "content_block_delta", "index": int(n), "delta": dict(delta)}:
            part = reply.parts.get(n)
            piece = _PIECES.get((part.kind if part else "", delta["type"]))
            reply.grow(n, delta.get(piece, "") if piece else "")
            if part and delta["type"] == "signature_delta":
                part.wire["signature"] += delta["signature"]
        case {"type": "content_block_stop", "index": int(n)}:
            reply.close(n)
        case {"type": "message_delta", "delta": dict(delta)}:
            reply.stop(delta.get("stop_reason"), _REASONS)
            counted = event.get("usage") or {}
            reply.count(_usage(counted), is_last=bool(reply.reason) and counted.get("output_tokens") is not None)
        case {"type": "message_stop"}:
            reply.end()
        case {"type": str(kind)} if kind not in (*_IN_REPLY, "message_start", "error"):
            pass
        case _:
            raise BrokenReply(f"an event has another shape than {event.get('type')!r} has")


def _usage(told: dict[str, Any]) -> Usage:
    return usage_in({ours: told.get(theirs) for ours, theirs in _CLASSES.items()})


def turn(reply: StreamedReply, completion: Completion) -> tuple[bytes, bytes]:
    """As the runner will show it again, and as the provider wants it back."""
    calls = iter(of_kind(ToolUse, completion.content))
    whole: list[Any] = []
    for part in reply.parts.values():
        if part.kind == TEXT and part.text.strip():
            whole.append(Text(part.text))
        elif part.kind == CALL:
            whole.append(next(calls))
        elif part.kind == THOUGHT:
            whole.append(part.wire if "data" in part.wire else part.wire | {"thinking": part.text})
    return _encode(completion.content), _encode(whole)


MESSAGES = Dialect("", EVENTS, body, take, turn)


class ClaudeModel(StreamedModel):
    """Calls of one of Anthropic's models."""

    def make_client(self) -> AsyncAnthropic:
        import anthropic

        client = anthropic.AsyncAnthropic(
            api_key=self.key.value or "none",
            base_url=self.base_url,
            webhook_key="",
            max_retries=0,
            http_client=super().make_client(),
            open_telemetry=False,
        )
        client.messages  # noqa: B018 -- its modules load on first use, which may as well be now
        return client

    @asynccontextmanager
    async def send(self, client: AsyncAnthropic, content: bytes) -> AsyncIterator[httpx2.Response]:
        import anthropic
        import httpx2

        is_stream = True
        try:
            # `messages.create` ends in this too, once it has copied the whole conversation and looked through it.
            response = await client.post("/v1/messages", cast_to=httpx2.Response, content=content, stream=is_stream)
        except anthropic.AnthropicError as error:  # it says `Connection error.` to whatever our connection raised
            raise error.__cause__ or BrokenReply(str(error)) from None
        try:
            yield response
        finally:
            await response.aclose()
