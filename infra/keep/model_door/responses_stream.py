"""One streamed reply of the Responses API, put together from its events, read strictly; pure.

Nothing comes out of a reply that did not end properly: with `response.completed` or `response.incomplete`, and all of
its items done. Tool calls count in a completed one alone, each with its arguments parsed whole. What an item is in the
end has to be what its pieces came to. Kinds of events and items that are not known are passed over."""

from __future__ import annotations

from typing import Any

import msgspec

from infra.keep.model_door.booking import highest
from infra.keep.model_door.connection import data_of
from infra.keep.model_door.errors import BrokenReply
from infra.keep.model_door.responses_events import (
    ADDED,
    ARGUMENTS,
    CREATED,
    FAILED,
    INCOMPLETE,
    REFUSAL_TEXT,
    TEXT,
    THOUGHTS,
    Delta,
    ErrorEvent,
    Event,
    Fault,
    Item,
    OfItem,
    OfResponse,
    Part,
    Response,
    provider_error,
    read_event,
    usage_of,
)
from infra.keep.model_door.responses_items import call_item, message_item, reasoning_item
from infra.keep.model_door.thinking import PHASE
from infra.keep.model_door.tool_calls import arguments_of, check_ids, plain_id
from infra.shared.conversation import (
    END_TURN,
    MAX_TOKENS,
    REFUSAL,
    TOOL_USE,
    Completion,
    Text,
    ToolUse,
    Usage,
)

_INCOMPLETE = {"max_output_tokens": MAX_TOKENS, "content_filter": REFUSAL}


class _Growing:
    """An item of the output."""

    def __init__(self, item: Item) -> None:
        self.first = item
        self.pieces: dict[tuple[str, int], list[str]] = {}
        """By the kind of their event and the part that they belong to."""
        self.done: Item | None = None

    def grow(self, kind: str, delta: Delta) -> None:
        self.pieces.setdefault((kind, delta.content_index), []).append(delta.delta)

    def finish(self, item: Item) -> None:
        """Raises BrokenReply when that is not what came before."""
        if (item.type, item.call_id, item.name) != (self.first.type, self.first.call_id, self.first.name):
            raise BrokenReply(f"an item began as {_named(self.first)} and ended as {_named(item)}")
        if item.status not in (None, "completed", "incomplete"):
            raise BrokenReply(f"an item is done, and its status is {item.status!r}")
        for (kind, place), pieces in self.pieces.items():
            if kind in THOUGHTS:
                continue
            parts = item.content or []
            part = parts[place] if place < len(parts) else Part("")
            whole = {ARGUMENTS: item.arguments, TEXT: part.text, REFUSAL_TEXT: part.refusal}[kind]
            if whole != "".join(pieces):
                raise BrokenReply(f"the pieces of {_named(item)} are not what it is in the end")
        self.done = item


class ResponsesReply:
    """A reply as far as it has come."""

    def __init__(self, model: str, most: Usage, thinking_silence: int = 1) -> None:
        """`model`: its name, if the reply has none. `most`: what the call can use at most."""
        self.done = False
        self.usage: Usage | None = None
        self.told = Usage()
        self.shown_bytes = 0
        self._model = model
        self._most = most
        self._thinking_silence = thinking_silence
        self._began = False
        self._items: dict[int, _Growing] = {}
        self._end: Response | None = None
        self._reason = ""

    @property
    def measured(self) -> bool:
        return self.usage is not None

    @property
    def silence(self) -> int:
        """Reasoning comes encrypted, when it is done."""
        return self._thinking_silence if "reasoning" in self._open else 1

    @property
    def hides(self) -> bool:
        """Between items, and in one that is withheld or that this door does not know."""
        return not self._open or any(type not in ("message", "function_call") for type in self._open)

    @property
    def _open(self) -> list[str]:
        return [item.first.type for item in self._items.values() if item.done is None]

    def take(self, line: bytes) -> bool:
        """Take one line of the stream; True when it brought the reply forward. Raises BrokenReply and ProviderError."""
        data = data_of(line)
        if not data or data == b"[DONE]":
            return False
        kind, event = read_event(data)
        return event is not None and self._apply(kind, event)

    def completion(self, known_ids: frozenset[str]) -> Completion:
        """The whole reply. Raises BrokenReply when it did not end properly or its tool calls cannot be trusted.

        `known_ids`: the tool calls of the conversation so far."""
        if self._end is None:
            raise BrokenReply("the stream ended before response.completed")
        if self._open and not self._reason:
            raise BrokenReply("the response is completed, and an item of it is not done")
        parts: list[Text | ToolUse] = []
        refuses = False
        for item in self._ordered():
            parts += [Text(words) for words in _texts(item)]
            refuses = refuses or any(part.refusal.strip() for part in item.content or ())
            if item.type == "function_call" and not self._reason:
                parts.append(_tool_use(item))
        calls = [part for part in parts if isinstance(part, ToolUse)]
        check_ids(calls, frozenset(plain_id(id) for id in known_ids) | known_ids)
        reason = self._reason or (TOOL_USE if calls else REFUSAL if refuses else END_TURN)
        if reason == END_TURN and not parts:
            raise BrokenReply("the reply is empty")
        return Completion(tuple(parts), reason, self._model, self.usage or self._most)

    def items_to_send_back(self) -> list[dict[str, Any]]:
        """The items as they go back to the provider, its reasoning included. Reasoning that nothing follows, or that
        came without its encrypted content, would be refused."""
        made: list[dict[str, Any]] = []
        for growing in (self._items[index] for index in sorted(self._items)):
            item = growing.done
            if item is None:
                continue
            phase = {PHASE: item.phase} if item.phase else {}
            made += [message_item("assistant", text) | phase for text in _texts(item)]
            if item.type == "function_call":
                made.append(call_item(_tool_use(item)))
            elif item.type == "reasoning" and item.encrypted_content is not None:
                made.append(reasoning_item(item))
        while made and made[-1]["type"] == "reasoning":
            made.pop()
        return made

    def _apply(self, kind: str, event: Event) -> bool:
        if self.done:
            raise BrokenReply("an event came after the end of the response")
        match event:
            case ErrorEvent():
                raise provider_error(event.error or Fault(event.code, None, event.message))
            case OfResponse():
                self._take_whole(kind, event.response)
            case OfItem():
                self._take_item(kind, event)
            case Delta():
                self._grow(kind, event)
                return bool(event.delta)
        return True

    def _take_whole(self, kind: str, response: Response) -> None:
        self._model = response.model or self._model
        if kind == CREATED:
            if self._began:
                raise BrokenReply("response.created came twice")
            self._began = True
            return
        counted = usage_of(response.usage) if response.usage else None
        if counted:
            self.told, self.usage = highest(self.told, counted), counted
        if kind == FAILED:
            raise provider_error(response.error or Fault())
        if kind == INCOMPLETE:
            why = response.incomplete_details.reason if response.incomplete_details else None
            if why not in _INCOMPLETE:
                raise BrokenReply(f"the response is incomplete because of {why!r}; known are {', '.join(_INCOMPLETE)}")
            self._reason = _INCOMPLETE[why]
        elif response.status not in (None, "completed"):
            raise BrokenReply(f"the response is completed, and its status is {response.status!r}")
        elif response.error or (response.incomplete_details and response.incomplete_details.reason):
            raise BrokenReply("the response is completed, and says why it is not")
        elif response.output:
            self._compare(response.output)
        self._end, self.done = response, True

    def _compare(self, output: list[Item]) -> None:
        """Some servers leave the output out of the end; where it is told, no call may be lost or another."""
        told, heard = ([item for item in items if item.type == "function_call"] for items in (output, self._ordered()))
        if [(item.call_id, item.name, item.arguments) for item in told] != [
            (item.call_id, item.name, item.arguments) for item in heard
        ]:
            raise BrokenReply("the response ends with other tool calls than it had")

    def _take_item(self, kind: str, event: OfItem) -> None:
        item = event.item
        known = self._items.get(event.output_index)
        if kind == ADDED:
            if known:
                raise BrokenReply(f"item {event.output_index} began twice")
            self._items[event.output_index] = _Growing(item)
        elif known is None or known.done:
            raise BrokenReply(f"item {event.output_index} is done, and was not open")
        else:
            known.finish(item)
            if not known.pieces:  # some servers send an item at once
                self.shown_bytes += len(item.arguments.encode(errors="replace"))
                self.shown_bytes += sum(len(words.encode(errors="replace")) for words in _texts(item))

    def _grow(self, kind: str, event: Delta) -> None:
        item = self._items.get(event.output_index)
        if item is None or item.done:
            raise BrokenReply(f"an event is for item {event.output_index}, which is not open")
        item.grow(kind, event)
        self.shown_bytes += len(event.delta.encode(errors="replace"))

    def _ordered(self) -> list[Item]:
        items = (self._items[index] for index in sorted(self._items))
        return [item.done or _as_far_as(item) for item in items]


def _as_far_as(item: _Growing) -> Item:
    """Of a message that was cut, what was said; of anything else, nothing."""
    if item.first.type != "message":
        return item.first
    parts = [
        Part("", "".join(pieces)) if kind == TEXT else Part("", refusal="".join(pieces))
        for (kind, _), pieces in item.pieces.items()
    ]
    return msgspec.structs.replace(item.first, content=parts)


def _texts(item: Item) -> list[str]:
    if item.type != "message":
        return []
    return [words for part in item.content or () for words in (part.text, part.refusal) if words.strip()]


def _tool_use(item: Item) -> ToolUse:
    if not item.call_id or not item.name:
        raise BrokenReply("a tool call has no id or no name")
    if item.status == "incomplete":
        raise BrokenReply(f"a call of {item.name!r} is incomplete")
    return ToolUse(plain_id(item.call_id), item.name, arguments_of(item.arguments, item.name))


def _named(item: Item) -> str:
    return f"{item.type} {item.name} {item.call_id}".strip()[:200]
