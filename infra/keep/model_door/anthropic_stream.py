"""One streamed reply of Anthropic's, put together from its raw events; pure.

Nothing comes out of a reply that did not end properly: tool calls only after `message_stop` with stop reason
`tool_use`, each with its argument text parsed whole and strictly here, because a cut or damaged call can look
complete. Kinds of events, blocks and deltas that this door does not know are passed over."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from infra.keep.model_door.booking import highest
from infra.keep.model_door.connection import data_of
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.tool_calls import arguments_of, check_ids, checked_arguments
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
    MOST_TOKENS,
    REFUSAL,
    TOOL_USE,
    Completion,
    Text,
    ToolUse,
    Usage,
)

MAX_BYTES = 32 * 1024 * 1024
"""Of one reply's events; far beyond what any number of output tokens makes."""
MAX_START_BYTES = 4 * 1024 * 1024
"""Of an event that begins a block: of what stands in it nothing is known, and it can take many times that in memory."""

_STOP_REASONS = {
    "end_turn": END_TURN,
    "stop_sequence": END_TURN,
    "tool_use": TOOL_USE,
    "max_tokens": MAX_TOKENS,
    "model_context_window_exceeded": MAX_TOKENS,
    "refusal": REFUSAL,
}


_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Tokens(msgspec.Struct, frozen=True):
    """Counts so far; one that is left out is as it was."""

    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None


class _MessageHead(msgspec.Struct, frozen=True):
    model: str
    usage: _Tokens


class _Start(msgspec.Struct, frozen=True):
    message: _MessageHead


class _BlockStart(msgspec.Struct, frozen=True):
    index: int
    content_block: dict[str, Any]


class _Delta(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""


class _BlockDelta(msgspec.Struct, frozen=True):
    index: int
    delta: _Delta


class _BlockStop(msgspec.Struct, frozen=True):
    index: int


class _Ending(msgspec.Struct, frozen=True):
    stop_reason: str | None = None


class _MessageDelta(msgspec.Struct, frozen=True):
    delta: _Ending
    usage: _Tokens = _Tokens()


class _Stop(msgspec.Struct, frozen=True):
    """The whole reply was sent."""


class _Fault(msgspec.Struct, frozen=True):
    type: str = "api_error"
    message: str = "no message"


class _Error(msgspec.Struct, frozen=True):
    error: _Fault


class _Kind(msgspec.Struct, frozen=True):
    type: str


_Event = _Start | _BlockStart | _BlockDelta | _BlockStop | _MessageDelta | _Stop | _Error
_EVENTS: dict[str, type[_Event]] = {
    "message_start": _Start,
    "content_block_start": _BlockStart,
    "content_block_delta": _BlockDelta,
    "content_block_stop": _BlockStop,
    "message_delta": _MessageDelta,
    "message_stop": _Stop,
    "error": _Error,
}


def _read_event(data: str | bytes) -> _Event | None:
    """The event in `data`; None for a kind that is not known, pings among them. Raises BrokenReply."""
    try:
        kind = _EVENTS.get(msgspec.json.decode(data, type=_Kind).type)
        if kind is _BlockStart and len(data) > MAX_START_BYTES:
            raise BrokenReply(f"a content block begins with over {MAX_START_BYTES} bytes")
        return msgspec.json.decode(data, type=kind) if kind else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenReply(f"an event cannot be read: {error}") from None


class _Block:
    """A content block that grows."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.type = start.get("type")
        self.pieces: list[str] = [start["text"]] if isinstance(start.get("text"), str) else []
        self.signatures: list[str] = []
        self.open = True

    def grow(self, delta: _Delta) -> bool:
        piece = {
            ("text", "text_delta"): delta.text,
            ("tool_use", "input_json_delta"): delta.partial_json,
            ("thinking", "thinking_delta"): delta.thinking,
        }.get((str(self.type), delta.type), "")
        self.pieces.append(piece)
        self.signatures.append(delta.signature)
        return bool(piece or delta.signature)


class AnthropicReply:
    """A reply as far as it has come."""

    def __init__(self, thinking_silence: int = 1) -> None:
        self.done = False
        self._thinking_silence = thinking_silence
        self._message: _MessageHead | None = None
        self._blocks: dict[int, _Block] = {}
        self._stop_reason: str | None = None
        self._counts: dict[str, int] = {}
        self.measured = False
        self.told = Usage()
        self.shown_bytes = 0
        self._size = 0

    def take(self, line: bytes) -> bool:
        """Take one line of the stream; True when it brought the reply forward, as a ping does not.

        Raises BrokenReply and ProviderError."""
        data = data_of(line)
        if not data:
            return False
        self._size += len(data)
        if self._size > MAX_BYTES:
            raise BrokenReply(f"the reply is over {MAX_BYTES} bytes")
        event = _read_event(data)
        return event is not None and self._apply(event)

    @property
    def silence(self) -> int:
        """While a block of thoughts is open, its text may be withheld."""
        thinking = any(block.open and block.type == "thinking" for block in self._blocks.values())
        return self._thinking_silence if thinking else 1

    @property
    def hides(self) -> bool:
        """Before its first block, and in one whose text may be withheld or that this door does not know."""
        is_open = [block.type for block in self._blocks.values() if block.open]
        return not self._blocks or any(type not in ("text", "tool_use") for type in is_open)

    def completion(self, known_ids: frozenset[str]) -> Completion:
        """The whole reply. Raises BrokenReply when it did not end properly or its tool calls cannot be trusted.

        `known_ids`: the tool calls of the conversation so far."""
        if not self.done or self._message is None:
            raise BrokenReply("the stream ended before message_stop")
        reason = _STOP_REASONS.get(self._stop_reason or "")
        if reason is None:
            raise BrokenReply(f"stop_reason is {self._stop_reason!r}; known are {', '.join(_STOP_REASONS)}")
        parts: list[Text | ToolUse] = []
        for block in self._ordered():
            text = "".join(block.pieces)
            if block.type == "text" and text.strip():
                parts.append(Text(text))
            elif block.type == "tool_use" and reason == TOOL_USE:
                parts.append(_tool_use(block))
        self._check_calls([part for part in parts if isinstance(part, ToolUse)], reason, known_ids)
        if reason == END_TURN and not self._blocks:
            raise BrokenReply("the reply is empty")
        return Completion(tuple(parts), reason, self._message.model, self._usage())

    def wire_blocks(self) -> list[dict[str, Any]]:
        """The blocks as they go back to the provider, thoughts included."""
        made: list[dict[str, Any]] = []
        for block in self._ordered():
            text = "".join(block.pieces)
            if block.type == "text" and text.strip():
                made.append({"type": "text", "text": text})
            elif block.type == "tool_use":
                call = _tool_use(block)
                made.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
            elif block.type == "thinking":
                thought = str(block.start.get("thinking") or "") + text
                signature = str(block.start.get("signature") or "") + "".join(block.signatures)
                made.append({"type": "thinking", "thinking": thought, "signature": signature})
            elif block.type == "redacted_thinking":
                made.append({"type": "redacted_thinking", "data": block.start.get("data")})
        return made

    def _apply(self, event: _Event) -> bool:
        if isinstance(event, _Error):
            raise ProviderError(event.error.type, event.error.message)
        if self.done:
            raise BrokenReply("an event came after message_stop")
        if isinstance(event, _Start):
            if self._message is not None:
                raise BrokenReply("message_start came twice")
            self._message = event.message
            self._count(event.message.usage)
            return True
        if self._message is None:
            raise BrokenReply("an event came before message_start")
        match event:
            case _BlockStart():
                if event.index in self._blocks:
                    raise BrokenReply(f"content block {event.index} began twice")
                self._blocks[event.index] = _Block(event.content_block)
            case _BlockDelta():
                grown = self._open_block(event.index).grow(event.delta)
                self.shown_bytes += len((event.delta.text + event.delta.partial_json + event.delta.thinking).encode())
                return grown
            case _BlockStop():
                self._open_block(event.index).open = False
            case _MessageDelta():
                reason = event.delta.stop_reason or self._stop_reason
                if self._stop_reason and reason != self._stop_reason:
                    raise BrokenReply(f"stop_reason is {self._stop_reason!r} and then {str(reason)!r}")
                self._stop_reason = reason
                self._count(event.usage)
                self.measured = self.measured or (reason is not None and event.usage.output_tokens is not None)
            case _Stop():
                self.done = True
        return True

    def _open_block(self, index: int) -> _Block:
        block = self._blocks.get(index)
        if block is None or not block.open:
            raise BrokenReply(f"an event is for content block {index}, which is not open")
        return block

    def _ordered(self) -> list[_Block]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    def _count(self, counts: _Tokens) -> None:
        """Counts are cumulative; one that is left out stays as it was."""
        for name in counts.__struct_fields__:
            value = getattr(counts, name)
            if value is not None:
                self._counts[name] = value
        self.told = highest(self.told, self._usage())

    def _usage(self) -> Usage:
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0),
            output_tokens=self._counts.get("output_tokens", 0),
            cache_write_tokens=self._counts.get("cache_creation_input_tokens", 0),
            cache_read_tokens=self._counts.get("cache_read_input_tokens", 0),
        )

    def _check_calls(self, calls: list[ToolUse], reason: str, known_ids: frozenset[str]) -> None:
        if reason == TOOL_USE and not calls:
            raise BrokenReply("stop_reason is tool_use, but the reply has no tool call")
        if reason == TOOL_USE and any(block.open for block in self._blocks.values()):
            raise BrokenReply("the reply ended inside a content block")
        check_ids(calls, known_ids)


def _tool_use(block: _Block) -> ToolUse:
    id, name, given = (block.start.get(key) for key in ("id", "name", "input"))
    if not isinstance(id, str) or not isinstance(name, str) or not name:
        raise BrokenReply("a tool call has no id or no name")
    text = "".join(block.pieces)
    return ToolUse(id, name, arguments_of(text, name) if text.strip() else checked_arguments(given, name))
