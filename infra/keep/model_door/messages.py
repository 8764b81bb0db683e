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

from infra.keep.model_door.call import Body, Dialect, StreamedModel
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.reply import CALL, TEXT, THOUGHT, StreamedReply, event_in, usage_in
from infra.keep.model_door.thoughts import Place, Thoughts
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
    REFUSAL,
    TOOL_USE,
    Completion,
    Image,
    Message,
    Request,
    Text,
    ToolResult,
    ToolUse,
    images_of,
)

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

MAX_MARKS = 4
MARKED_MESSAGES = 2
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_encode = msgspec.json.Encoder().encode


def body(request: Request, model: str, max_tokens: int, thoughts: Thoughts) -> Body:
    tools = _encode(request.tools)
    system = [_encode(Text(text)) for text in request.system if text.strip()]
    place = Place(thoughts, tools, *system)
    turns = [
        (message.role, place.after(_encode(blocks), message.role == "assistant"))
        for message in request.messages
        if (blocks := _blocks(message))
    ]
    marked = {0, len(system) - 1} if system else set()
    left = MAX_MARKS - len(marked) - bool(request.tools)
    users = [n for n, (role, _) in enumerate(turns) if role == "user"]
    ends = set(users[-min(left, MARKED_MESSAGES) :])
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
    if message.role == "user":
        if len(blocks) > 1:
            blocks.sort(key=lambda block: type(block) is not ToolResult)
        return [_with_images(block) if images_of(block) else block for block in blocks]
    return blocks


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
    "end_turn": END_TURN,
    "stop_sequence": END_TURN,
    "tool_use": TOOL_USE,
    "max_tokens": MAX_TOKENS,
    "model_context_window_exceeded": MAX_TOKENS,
    "refusal": REFUSAL,
}
_KINDS = {"text": TEXT, "tool_use": CALL, "thinking": THOUGHT, "redacted_thinking": THOUGHT}
_PIECES = {
    (TEXT, "text_delta"): "text",
    (CALL, "input_json_delta"): "partial_json",
    (THOUGHT, "thinking_delta"): "thinking",
}
_IN_REPLY = ("content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop")
_KNOWN = (*_IN_REPLY, "message_start", "error")


def take(reply: StreamedReply, data: bytes) -> None:
    """One event; kinds of events, blocks and deltas that are not known are passed over. Raises BrokenReply and
    ProviderError."""
    event = event_in(data)
    match event:
        case {"type": "error", "error": {"type": str(kind), "message": str(words)}}:
            raise ProviderError(kind, words)
        case {"type": str(kind)} if kind in _IN_REPLY and (reply.done or not reply.began):
            raise BrokenReply(f"{kind} came before the reply, or behind its end")
        case {"type": "message_start", "message": {"model": str(model), "usage": dict(usage)}}:
            reply.begin(model)
            reply.count(_usage(usage), is_last=False)
        case {"type": "content_block_start", "index": int(n), "content_block": dict(block)}:
            kind = str(block.get("type"))
            if block.get("input"):
                raise BrokenReply("a tool call begins with its arguments; expected them in pieces")
            wire = {"type": kind, "signature": "", "data": block.get("data")}
            reply.open(n, _KINDS.get(kind, kind), *_named(block), wire=wire)
            if kind in ("text", "thinking"):
                reply.grow(n, block.get(kind) or "")
            _sign(reply, n, block)
        case {"type": "content_block_delta", "index": int(n), "delta": dict(delta)}:
            part = reply.parts.get(n)
            name = _PIECES.get((part.kind if part else "", str(delta.get("type"))))
            reply.grow(n, delta.get(name, "") if name else "")
            _sign(reply, n, delta)
        case {"type": "content_block_stop", "index": int(n)}:
            reply.close(n)
        case {"type": "message_delta", "delta": dict(delta)}:
            reply.stop(delta.get("stop_reason"), _REASONS)
            counted = event.get("usage") or {}
            reply.count(_usage(counted), is_last=bool(reply.reason) and counted.get("output_tokens") is not None)
        case {"type": "message_stop"}:
            reply.end()
        case {"type": str(kind)} if kind not in _KNOWN:
            pass
        case _:
            raise BrokenReply(f"an event cannot be read: it has another shape than {event.get('type')!r} has")


def _named(block: dict[str, Any]) -> tuple[str, str]:
    id, name = (block.get(key) or "" for key in ("id", "name"))
    return id if isinstance(id, str) else "", name if isinstance(name, str) else ""


def _sign(reply: StreamedReply, n: int, told: dict[str, Any]) -> None:
    if signature := told.get("signature"):
        reply.grow(n, "")
        reply.parts[n].wire["signature"] += str(signature)


def _usage(told: Any) -> Any:
    if not isinstance(told, dict):
        raise BrokenReply("an event cannot be read: its usage is none")
    names = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
    names |= {"cache_write_tokens": "cache_creation_input_tokens", "cache_read_tokens": "cache_read_input_tokens"}
    return usage_in({ours: told.get(theirs) for ours, theirs in names.items()})


def turn(reply: StreamedReply, completion: Completion) -> tuple[bytes, bytes]:
    """As the runner will show it again, and as the provider wants it back."""
    calls = iter([block for block in completion.content if isinstance(block, ToolUse)])
    whole: list[Any] = []
    for part in reply.parts.values():
        if part.kind == TEXT and part.text.strip():
            whole.append(Text(part.text))
        elif part.kind == CALL:
            whole.append(next(calls))
        elif part.kind == THOUGHT and part.wire["type"] == "thinking":
            whole.append({"type": "thinking", "thinking": part.text, "signature": part.wire["signature"]})
        elif part.kind == THOUGHT:
            whole.append({"type": "redacted_thinking", "data": part.wire.get("data")})
    return _encode(completion.content), _encode(whole)


MESSAGES = Dialect("", "text/event-stream", "https://api.anthropic.com", True, body, take, turn)


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
        import httpx2

        # `messages.create` ends in this too, once it has copied the whole conversation and looked through it.
        is_stream = True
        response = await client.post("/v1/messages", cast_to=httpx2.Response, content=content, stream=is_stream)
        try:
            yield response
        finally:
            await response.aclose()

    def cause_of(self, error: Exception) -> Exception:
        """The SDK says `Connection error.` to whatever our connection raised."""
        import anthropic

        if isinstance(error, anthropic.AnthropicError):
            return error.__cause__ if isinstance(error.__cause__, Exception) else BrokenReply(str(error))
        return error
