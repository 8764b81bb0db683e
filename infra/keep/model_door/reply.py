"""One streamed reply, whatever its dialect: what may be believed of it. Pure.

A dialect says what each event means in the words of this class; the laws stand here, once. Nothing comes out of a
reply that did not end properly, with one known reason and nothing behind it. Tool calls count only when the model ended
its turn by itself, each whole, because a cut or damaged call can look complete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from infra.keep.model_door.errors import BrokenReply
from infra.keep.model_door.tool_calls import arguments_of, check_ids, plain_id
from infra.shared.conversation import END_TURN, REFUSAL, TOOL_USE, Completion, Text, ToolUse, Usage, of_kind

MOST_BYTES = 8 << 20
"""Of text, thoughts and arguments; no model makes so much, and arguments take many times it in memory."""
MOST_EVENT_BYTES = 16 << 20
MOST_PARTS = 2000
TEXT, REFUSAL_TEXT, CALL, THOUGHT = "text", "refusal", "call", "thought"
"""Kinds of parts; of any other nothing is passed on."""


@dataclass
class Part:
    """A piece of the reply that grows."""

    kind: str
    id: str = ""
    name: str = ""
    wire: dict[str, Any] = field(default_factory=dict)
    """What of a thought goes back to the provider as it came."""
    pieces: list[str] = field(default_factory=list)
    is_open: bool = True

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class StreamedReply:
    """As far as it has come."""

    def __init__(self, model: str) -> None:
        """`model`: its name, if the reply has none."""
        self.model = model
        self.parts: dict[object, Part] = {}
        """By the dialect's own keys, in order."""
        self.reason = ""
        self.began = self.done = False
        self.told = Usage()
        self.is_counted = False
        """`told` is the provider's last word."""
        self.bytes = 0
        """Of text, thoughts and arguments so far."""

    def begin(self, model: str) -> None:
        """Of a dialect that says so."""
        if self.began:
            raise BrokenReply("the reply began twice")
        self.began, self.model = True, model or self.model

    def open(self, key: object, part: Part) -> Part:
        if key in self.parts or len(self.parts) >= MOST_PARTS:
            raise BrokenReply(f"part {key} began twice, or is one of over {MOST_PARTS}")
        if self.reason:
            raise BrokenReply("more of the reply came behind its end")
        self.parts[key] = part
        return part

    def grow(self, key: object, piece: Any) -> None:
        part = self._open_part(key)
        if not isinstance(piece, str):
            raise BrokenReply(f"a piece of part {key} is no text")
        if piece and self.reason:
            raise BrokenReply("more of the reply came behind its end")
        part.pieces.append(piece)
        self.bytes += len(piece.encode(errors="replace"))
        if self.bytes > MOST_BYTES:
            raise BrokenReply(f"it holds over {MOST_BYTES} bytes of text and arguments")

    def say(self, kind: str, piece: Any) -> None:
        """Of a dialect that does not tell where a part begins: all of one kind is one part."""
        if piece:
            if kind not in self.parts:
                self.open(kind, Part(kind))
            self.grow(kind, piece)

    def close(self, key: object) -> None:
        self._open_part(key).is_open = False

    def count(self, usage: Usage | None, is_last: bool) -> None:
        """What the provider counts: it is believed upwards only. None for what is no count."""
        if usage:
            self.told, self.is_counted = Usage(*map(max, self.told, usage)), self.is_counted or is_last

    def stop(self, reason: str | None, known: Mapping[str, str]) -> None:
        """`known`: the dialect's words for ours."""
        if reason:
            if reason not in known or self.reason not in ("", known[reason]):
                raise BrokenReply(f"it stops because of {reason!r}; expected one of {', '.join(known)}, once")
            self.reason = known[reason]

    def end(self, closes: bool = False) -> None:
        """`closes`: all parts, of a dialect that does not tell where one ends."""
        for part in self.parts.values() if closes else ():
            part.is_open = False
        self.done = True

    def completion(self, known_ids: Collection[str]) -> Completion:
        """The whole reply; `known_ids`: the tool calls of the conversation so far. Raises BrokenReply when it did not
        end properly, or its calls cannot be trusted."""
        if not (self.done and self.reason):
            raise BrokenReply("the stream ended before the reply did, or without a reason")
        ended = self.reason in (TOOL_USE, END_TURN)
        if ended and any(part.is_open for part in self.parts.values()):
            raise BrokenReply("the reply ended inside a part of it")
        content: list[Text | ToolUse] = []
        for part in self.parts.values():
            if part.kind in (TEXT, REFUSAL_TEXT) and part.text.strip():
                content.append(Text(part.text))
            elif part.kind == CALL and ended:
                if not (part.id and part.name):
                    raise BrokenReply("a tool call has no id or no name")
                content.append(ToolUse(part.id, part.name, arguments_of(part.text, part.name)))
        calls = of_kind(ToolUse, content)
        if calls:
            check_ids(calls, {*known_ids, *map(plain_id, known_ids)})
        return Completion(tuple(content), self._why(content, calls), self.model, self.told)

    def _why(self, content: list[Text | ToolUse], calls: list[ToolUse]) -> str:
        """The reason, where some say only that the turn is over. Raises BrokenReply for one that nothing bears out."""
        kinds = {part.kind for part in self.parts.values()}
        if self.reason == TOOL_USE and not calls:
            raise BrokenReply("it stops for tool calls, and has none")
        if self.reason != END_TURN:
            return self.reason
        if not content and THOUGHT not in kinds:
            raise BrokenReply("the reply is empty")
        return TOOL_USE if calls else REFUSAL if REFUSAL_TEXT in kinds else END_TURN

    def _open_part(self, key: object) -> Part:
        part = self.parts.get(key)
        if part is None or not part.is_open:
            raise BrokenReply(f"an event is for part {key}, which is not open")
        return part


def heed(take: Callable[[StreamedReply, bytes], None], reply: StreamedReply, data: bytes) -> None:
    """One event, by a dialect that takes each value for what its format says it is. Raises BrokenReply and
    ProviderError."""
    if reply.done:
        raise BrokenReply("an event came behind the end of the reply")
    if len(data) > MOST_EVENT_BYTES:
        raise BrokenReply(f"an event is over {MOST_EVENT_BYTES} bytes")
    try:
        take(reply, data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise BrokenReply(f"an event cannot be read: {error}") from None


def event_in(data: bytes) -> Any:
    return msgspec.json.decode(data, type=dict[str, Any])


def usage_in(counts: Mapping[str, Any]) -> Usage:
    """By our names; one that is None or left out is 0."""
    return msgspec.convert({name: count for name, count in counts.items() if count is not None}, Usage)
