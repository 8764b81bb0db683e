"""A loopback server that speaks Anthropic's streaming Messages format over real HTTP, for driving the real SDK.

`Wire(reply)` asks the callable `reply(request_json)` what to do with each request: a list of blocks, an `Answer`, or
what is sent as it is, such as a fault."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.keep.model_door import peer
from tests.keep.model_door.peer import Peer

Event = tuple[str, dict[str, Any]]


class Say(NamedTuple):
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

    @property
    def pieces(self) -> list[str]:
        """Of its arguments."""
        return cut(json.dumps(self.input) if self.raw is None else self.raw, self.piece_length)


class Raw(NamedTuple):
    """Any block, and what is told of it afterwards."""

    block: dict[str, Any]
    deltas: tuple[dict[str, Any], ...] = ()


Block = Say | Use | Raw


class Counts(NamedTuple):
    input: int = 100
    output: int = 20
    cache_write: int = 0
    cache_read: int = 0


class Answer(NamedTuple):
    """A good reply."""

    blocks: tuple[Block, ...] = ()
    stop_reason: str | None = None
    """None: `tool_use` when there is a tool call, else `end_turn`."""
    usage: Counts = Counts()
    pings: int = 1
    """Sent after the first event."""


Reaction = list[Block] | Answer | peer.Answer


def error(message: str, type: str = "api_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}}


OVERLOADED = error("Overloaded", "overloaded_error")


def overloaded(*headers: tuple[str, str]) -> peer.Answer:
    """No reply."""
    return peer.Answer((json.dumps(OVERLOADED).encode(),), "end", 529, "application/json", headers)


def broken(answer: Answer, count: int) -> peer.Answer:
    """A reply that is good for so many events."""
    return peer.Answer((*(sse(*event) for event in events(answer)[:count]), sse("error", OVERLOADED)))


def cut(text: str, length: int) -> list[str]:
    return [text[place : place + length] for place in range(0, len(text), length)]


def sse(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name} | data, ensure_ascii=False)}\n\n".encode()


def events(answer: Answer, model: str = "claude-opus-5-5", number: int = 1) -> list[Event]:
    """The events of a good reply, in order, without the ping behind the first; `number` tells its ids from others'."""
    counts = answer.usage
    calls = any(isinstance(block, Use) for block in answer.blocks)
    reason = answer.stop_reason or ("tool_use" if calls else "end_turn")
    usage = {
        "input_tokens": counts.input,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    made: list[Event] = [("message_start", {"message": message})]
    for index, block in enumerate(answer.blocks):
        start, deltas = _block(block, f"toolu_{number:04}_{index:02}")
        made.append(("content_block_start", {"index": index, "content_block": start}))
        made += [("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
        made.append(("content_block_stop", {"index": index}))
    delta = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": counts.output}}
    return [*made, ("message_delta", delta), ("message_stop", {})]


def _block(block: Block, id: str) -> Raw:
    match block:
        case Say(text, pieces):
            parts = cut(text, -(-len(text) // max(pieces, 1)) or 1)
            return Raw({"type": "text", "text": ""}, tuple({"type": "text_delta", "text": part} for part in parts))
        case Use():
            parts = [] if block.pieces == ["{}"] else ["", *block.pieces]
            start = {"type": "tool_use", "id": block.id or id, "name": block.name, "input": dict[str, Any]()}
            return Raw(start, tuple({"type": "input_json_delta", "partial_json": part} for part in parts))
        case Raw():
            return block


class Wire(Peer):
    """`with Wire(reply) as wire` runs it on a free port of 127.0.0.1."""

    def __init__(self, reply: Callable[[dict[str, Any]], Reaction]) -> None:
        super().__init__("text/event-stream", lambda body: self._sent(reply(body), body["model"]))
        self._numbers = itertools.count(1)

    def _sent(self, reaction: Reaction, model: str) -> peer.Answer:
        if isinstance(reaction, peer.Answer):
            return reaction
        answer = Answer(tuple(reaction)) if isinstance(reaction, list) else reaction
        first, *others = (sse(*event) for event in events(answer, model, next(self._numbers)))
        return peer.Answer((first, *[sse("ping", {})] * answer.pings, *others))
