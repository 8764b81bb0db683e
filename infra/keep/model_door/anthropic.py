"""Anthropic's models through the official SDK, which is imported in the background once the door listens: its
import takes a second or more.

The SDK gets its key, its address and its connection from here and nothing from the environment; it follows no
redirect and retries nothing.

The provider caches prefixes in the order tools, system, messages, at up to four marks: the last tool, SYSTEM.md,
the last system text, and the end of the last user messages with what is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from infra.keep.model_door.anthropic_stream import AnthropicReply
from infra.keep.model_door.connection import MAX_BYTES
from infra.keep.model_door.encoding import encoded
from infra.keep.model_door.errors import BrokenReply, CallRefused
from infra.keep.model_door.keys import Key
from infra.keep.model_door.streaming import THINKING_SILENCE, Exchange, StreamingModel
from infra.keep.model_door.thinking import Thoughts, with_thoughts
from infra.keep.model_settings import Choice
from infra.shared.conversation import TOOL_USE, Block, Completion, Image, Message, Request, Text, ToolResult, to_plain

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic


class AnthropicModel(StreamingModel):
    """Calls of one of Anthropic's models."""

    provider = "anthropic"
    example_url = "https://api.anthropic.com"
    longest_silence = THINKING_SILENCE

    def __init__(self, choice: Choice, idle_seconds: float, key: Key, most_bytes: int = MAX_BYTES) -> None:
        super().__init__(choice, idle_seconds, key, most_bytes)
        self._thoughts = Thoughts()

    def client_name(self) -> str:
        return "the anthropic SDK"

    def exchange(self, request: Request) -> Exchange:
        made, fingerprint = body(request, self.name, self.max_tokens, self._thoughts)
        return Exchange(made, AnthropicReply(THINKING_SILENCE), fingerprint)

    def make_client(self, most_bytes: int) -> AsyncAnthropic:
        import anthropic

        client = anthropic.AsyncAnthropic(
            api_key=self.key.value or "none",
            base_url=self.base_url,
            webhook_key="",
            max_retries=0,
            http_client=super().make_client(most_bytes),
            open_telemetry=False,
        )
        client.messages  # noqa: B018 -- its modules load on first use, which may as well be now
        return client

    @asynccontextmanager
    async def send(self, client: AsyncAnthropic, body: dict[str, Any]) -> AsyncIterator[httpx2.Response]:
        import httpx2

        # `messages.create` ends in this too, once it has copied the whole conversation and looked through it.
        content, is_stream = encoded(body | {"stream": True}), True
        response = await client.post("/v1/messages", cast_to=httpx2.Response, content=content, stream=is_stream)
        try:
            yield response
        finally:
            await response.aclose()

    def cause_of(self, error: Exception) -> Exception:
        import anthropic
        import httpx2

        match error:
            case anthropic.APIStatusError():
                told = (error.type, error.error_code, error.api_message)  # as the provider sent it: of any type
                *names, words = (part if isinstance(part, str) else "" for part in told)
                names = [name for name in names if name]
                return CallRefused(error.status_code, names, words or "no message", error.response.headers)
            case anthropic.APIConnectionError() if isinstance(error.__cause__, httpx2.HTTPError | OSError | ValueError):
                return error.__cause__
            case anthropic.AnthropicError():
                return BrokenReply(str(error.__cause__ or error))
        return error

    def completed(self, exchange: Exchange, completion: Completion) -> None:
        if completion.stop_reason == TOOL_USE and isinstance(exchange.reply, AnthropicReply):
            self._thoughts.remember(exchange.reply.wire_blocks(), exchange.fingerprint)


MAX_MARKS = 4
MARKED_MESSAGES = 2
_MARK = {"type": "ephemeral"}


def body(request: Request, model: str, max_tokens: int, thoughts: Thoughts) -> tuple[dict[str, Any], str]:
    """The arguments of a Messages call, and the fingerprint of everything in it that a thought can be bound to."""
    tools = [to_plain(tool) for tool in request.tools]
    system = [{"type": "text", "text": text} for text in request.system if text.strip()]
    said = [(message.role, wire) for message in request.messages if (wire := _message(message))]
    turns, fingerprint = with_thoughts(said, [tools, system], thoughts)
    messages: list[dict[str, Any]] = [{"role": role, "content": content} for role, content in turns]
    _mark(tools, system, messages)
    made: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": messages}
    return made | ({"system": system} if system else {}) | ({"tools": tools} if tools else {}), fingerprint


def _message(message: Message) -> list[dict[str, Any]]:
    """Results come first, as the provider demands; text of nothing but white space it refuses, so it is left out."""
    blocks = [block for block in message.content if not (isinstance(block, Text) and not block.text.strip())]
    blocks.sort(key=lambda block: not isinstance(block, ToolResult) if message.role == "user" else 0)
    return [_wire(block) for block in blocks]


def _wire(block: Block) -> dict[str, Any]:
    """Ours is the provider's shape, but for images."""
    match block:
        case Image():
            source = {"type": "base64", "media_type": block.media_type, "data": block.data}
            return {"type": "image", "source": source}
        case ToolResult(content=text, images=(_, *_) as images):
            told = (Text(text),) if text.strip() else ()
            return {**to_plain(block._replace(images=())), "content": [_wire(part) for part in (*told, *images)]}
    return to_plain(block)


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
