"""One streamed reply of Anthropic's, put together from its raw events; pure.

Nothing comes out of a reply that did not end properly: tool calls only after `message_stop` with stop reason
`tool_use`, each with its argument text parsed whole and strictly here, because a cut or damaged call can look
complete. Kinds of events, blocks and deltas that this door does not know are passed over."""

from __future__ import annotations

from typing import Any

from infra.keep.model_door.anthropic_events import (
    BlockDelta,
    BlockStart,
    BlockStop,
    Delta,
    Error,
    Event,
    MessageDelta,
    MessageHead,
    Start,
    Stop,
    Tokens,
    read_event,
)
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.tool_calls import arguments_of, check_ids, checked_arguments
from infra.shared.conversation import END_TURN, MAX_TOKENS, REFUSAL, TOOL_USE, Completion, Text, ToolUse, Usage

MAX_BYTES = 32 * 1024 * 1024
"""Of one reply's events; far beyond what any number of output tokens makes."""

_STOP_REASONS = {
    "end_turn": END_TURN,
    "stop_sequence": END_TURN,
    "tool_use": TOOL_USE,
    "max_tokens": MAX_TOKENS,
    "model_context_window_exceeded": MAX_TOKENS,
    "refusal": REFUSAL,
}


class _Block:
    """A content block that grows."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.type = start.get("type")
        self.pieces: list[str] = [start["text"]] if isinstance(start.get("text"), str) else []
        self.signatures: list[str] = []
        self.open = True

    def grow(self, delta: Delta) -> bool:
        piece = {
            ("text", "text_delta"): delta.text,
            ("tool_use", "input_json_delta"): delta.partial_json,
            ("thinking", "thinking_delta"): delta.thinking,
        }.get((str(self.type), delta.type), "")
        self.pieces.append(piece)
        self.signatures.append(delta.signature)
        return bool(piece or delta.signature)


class Reply:
    """A reply as far as it has come."""

    def __init__(self) -> None:
        self.done = False
        self._message: MessageHead | None = None
        self._blocks: dict[int, _Block] = {}
        self._stop_reason: str | None = None
        self._counts: dict[str, int] = {}
        self._measured = False
        self._size = 0

    def take(self, data: str | bytes) -> bool:
        """Take the data of one event; True when it brought the reply forward, as a ping does not.

        Raises BrokenReply and ProviderError."""
        self._size += len(data)
        if self._size > MAX_BYTES:
            raise BrokenReply(f"the reply is over {MAX_BYTES} bytes")
        event = read_event(data)
        return event is not None and self._apply(event)

    @property
    def thinking(self) -> bool:
        """True while a block of thoughts is open; its text may be withheld, so long silence is to be expected."""
        return any(block.open and block.type == "thinking" for block in self._blocks.values())

    def usage_at_most(self, max_tokens: int) -> Usage | None:
        """What the provider can charge for a reply that broke off here; None when it has not said anything yet."""
        if self._message is None:
            return None
        return self._usage()._replace(output_tokens=self._usage().output_tokens if self._measured else max_tokens)

    @property
    def measured(self) -> bool:
        """The provider has said how much it counts in the end."""
        return self._measured

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

    def _apply(self, event: Event) -> bool:
        if isinstance(event, Error):
            raise ProviderError(event.error.type, event.error.message)
        if self.done:
            raise BrokenReply("an event came after message_stop")
        if isinstance(event, Start):
            if self._message is not None:
                raise BrokenReply("message_start came twice")
            self._message = event.message
            self._count(event.message.usage)
            return True
        if self._message is None:
            raise BrokenReply("an event came before message_start")
        match event:
            case BlockStart():
                if event.index in self._blocks:
                    raise BrokenReply(f"content block {event.index} began twice")
                self._blocks[event.index] = _Block(event.content_block)
            case BlockDelta():
                return self._open_block(event.index).grow(event.delta)
            case BlockStop():
                self._open_block(event.index).open = False
            case MessageDelta():
                reason = event.delta.stop_reason or self._stop_reason
                if self._stop_reason and reason != self._stop_reason:
                    raise BrokenReply(f"stop_reason is {self._stop_reason[:80]!r} and then {str(reason)[:80]!r}")
                self._stop_reason = reason
                self._count(event.usage)
                self._measured = self._measured or (reason is not None and event.usage.output_tokens is not None)
            case Stop():
                self.done = True
        return True

    def _open_block(self, index: int) -> _Block:
        block = self._blocks.get(index)
        if block is None or not block.open:
            raise BrokenReply(f"an event is for content block {index}, which is not open")
        return block

    def _ordered(self) -> list[_Block]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    def _count(self, counts: Tokens) -> None:
        """Counts are cumulative; one that is left out stays as it was."""
        for name in counts.__struct_fields__:
            value = getattr(counts, name)
            if value is not None:
                self._counts[name] = value

    def _usage(self) -> Usage:
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0),
            output_tokens=self._counts.get("output_tokens", 0),
            cache_write_tokens=self._counts.get("cache_creation_input_tokens", 0),
            cache_read_tokens=self._counts.get("cache_read_input_tokens", 0),
        )

    def _check_calls(self, calls: list[ToolUse], reason: str, known_ids: frozenset[str]) -> None:
        if reason == TOOL_USE and not calls:
            raise BrokenReply("stop_reason is tool_use and there is no tool call")
        if reason == TOOL_USE and any(block.open for block in self._blocks.values()):
            raise BrokenReply("the reply ended inside a content block")
        check_ids(calls, known_ids)


def _tool_use(block: _Block) -> ToolUse:
    id, name, given = (block.start.get(key) for key in ("id", "name", "input"))
    if not isinstance(id, str) or not isinstance(name, str) or not name:
        raise BrokenReply("a tool call has no id or no name")
    text = "".join(block.pieces)
    return ToolUse(id, name, arguments_of(text, name) if text.strip() else checked_arguments(given, name))
