"""A loopback server that speaks Anthropic's streaming Messages format over real HTTP, for driving the real SDK.

`Wire(reply)` asks the callable `reply(request_json)` what to do with each request: a list of blocks, an `Answer`, or
a fault, made from the events of a good answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.keep.model_door import peer
from tests.keep.model_door.peer import Peer


@dataclass(frozen=True)
class Say:
    text: str
    pieces: int = 3
    """In how many deltas it comes."""


@dataclass(frozen=True)
class Use:
    """A tool call."""

    name: str
    input: dict[str, Any]
    id: str | None = None
    """None: the server makes one."""
    raw: str | None = None
    """Sent instead of the input's own JSON."""
    piece_length: int = 7


@dataclass(frozen=True)
class Think:
    """Thoughts as they come by default: the text withheld, a signature alone."""

    signature: str
    thinking: str = ""


@dataclass(frozen=True)
class Other:
    """Any block, for kinds that nobody knows yet."""

    block: dict[str, Any]


Block = Say | Use | Think | Other


@dataclass(frozen=True)
class Counts:
    input: int = 100
    output: int = 20
    cache_write: int = 0
    cache_read: int = 0


@dataclass(frozen=True)
class Answer:
    """A good reply."""

    blocks: tuple[Block, ...] = ()
    stop_reason: str | None = None
    """None: `tool_use` when there is a tool call, else `end_turn`."""
    usage: Counts = Counts()
    pings: int = 1
    """Sent after the first event."""


@dataclass(frozen=True)
class Broken:
    """A reply that is good up to an event and then goes wrong."""

    answer: Answer
    events: int
    """So many events are sent."""
    extra: bytes
    """Sent after the events, as they are."""


@dataclass(frozen=True)
class Status:
    """An answer that is no 200, in Anthropic's error format."""

    code: int
    type: str = "api_error"
    message: str = "something went wrong"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Whole:
    """A 200 with a body of any other kind."""

    content_type: str
    body: bytes


Reaction = list[Block] | Answer | Broken | Status | Whole


def error_event(type: str, message: str) -> bytes:
    """For `Broken.extra`: an error in the middle of a reply that began with 200."""
    return sse("error", {"type": "error", "error": {"type": type, "message": message}})


def sse(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def events(answer: Answer, request: dict[str, Any], number: int) -> list[tuple[str, dict[str, Any]]]:
    """The events of a good reply, in order, without the ping behind the first."""
    counts = answer.usage
    calls = any(isinstance(block, Use) for block in answer.blocks)
    reason = answer.stop_reason or ("tool_use" if calls else "end_turn")
    usage = {
        "input_tokens": counts.input,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "output_tokens": 1,
        "service_tier": "standard",
    }
    message = {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": list[object](),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    made: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": message})]
    for index, block in enumerate(answer.blocks):
        start, deltas = _block(block, f"toolu_{number:04}_{index:02}")
        made.append(("content_block_start", {"index": index, "content_block": start}))
        made += [("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
        made.append(("content_block_stop", {"index": index}))
    delta = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": counts.output}}
    return [*made, ("message_delta", delta), ("message_stop", {})]


def _block(block: Block, id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block:
        case Say(text, pieces):
            return {"type": "text", "text": ""}, [
                {"type": "text_delta", "text": piece} for piece in _cut(text, -(-len(text) // max(pieces, 1)) or 1)
            ]
        case Use():
            arguments = json.dumps(block.input) if block.raw is None else block.raw
            pieces_of_json = ["", *_cut(arguments, block.piece_length)] if arguments != "{}" else []
            return {"type": "tool_use", "id": block.id or id, "name": block.name, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in pieces_of_json
            ]
        case Think(signature, thinking):
            thoughts = [{"type": "thinking_delta", "thinking": thinking}] if thinking else []
            start = {"type": "thinking", "thinking": "", "signature": ""}
            return start, [*thoughts, {"type": "signature_delta", "signature": signature}]
        case Other(raw):
            return raw, [{"type": "some_future_delta", "anything": [1, 2]}]


def _cut(text: str, length: int) -> list[str]:
    return [text[place : place + length] for place in range(0, len(text), length)]


class Wire(Peer):
    """`with Wire(reply) as wire` runs it on a free port of 127.0.0.1."""

    def __init__(self, reply: Callable[[dict[str, Any]], Reaction]) -> None:
        super().__init__("text/event-stream", lambda body: _sent(reply(body), body, next(self._numbers)))
        self._numbers = itertools.count(1)


def _sent(reaction: Reaction, request: dict[str, Any], number: int) -> peer.Answer:
    match reaction:
        case Status():
            error = {"type": reaction.type, "message": reaction.message}
            body = json.dumps({"type": "error", "error": error}).encode()
            return peer.Answer((body,), "end", reaction.code, "application/json", reaction.headers)
        case Whole():
            return peer.Answer((reaction.body,), content_type=reaction.content_type)
        case Broken():
            every = events(reaction.answer, request, number)[: reaction.events]
            return peer.Answer((*(sse(name, {"type": name, **data}) for name, data in every), reaction.extra))
        case list():
            return _sent(Answer(tuple(reaction)), request, number)
        case Answer():
            first, *others = (sse(name, {"type": name, **data}) for name, data in events(reaction, request, number))
            return peer.Answer((first, *[sse("ping", {"type": "ping"})] * reaction.pings, *others))
