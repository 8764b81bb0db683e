"""The events of Anthropic's stream that this door knows, read strictly where it knows them; pure.

Fields and kinds of events that are not known are passed over: the provider may add some at any time."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from infra.keep.model_door.errors import BrokenReply
from infra.shared.conversation import MOST_TOKENS

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class Tokens(msgspec.Struct, frozen=True):
    """Counts so far; one that is left out is as it was."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None


class MessageHead(msgspec.Struct, frozen=True):
    model: str
    usage: Tokens


class Start(msgspec.Struct, frozen=True):
    message: MessageHead


class BlockStart(msgspec.Struct, frozen=True):
    index: int
    content_block: dict[str, Any]


class Delta(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""


class BlockDelta(msgspec.Struct, frozen=True):
    index: int
    delta: Delta


class BlockStop(msgspec.Struct, frozen=True):
    index: int


class Ending(msgspec.Struct, frozen=True):
    stop_reason: str | None = None


class MessageDelta(msgspec.Struct, frozen=True):
    delta: Ending
    usage: Tokens = Tokens()


class Stop(msgspec.Struct, frozen=True):
    """The whole reply was sent."""


class Fault(msgspec.Struct, frozen=True):
    type: str = "api_error"
    message: str = "no message"


class Error(msgspec.Struct, frozen=True):
    error: Fault


class _Kind(msgspec.Struct, frozen=True):
    type: str


Event = Start | BlockStart | BlockDelta | BlockStop | MessageDelta | Stop | Error
_EVENTS: dict[str, type[Event]] = {
    "message_start": Start,
    "content_block_start": BlockStart,
    "content_block_delta": BlockDelta,
    "content_block_stop": BlockStop,
    "message_delta": MessageDelta,
    "message_stop": Stop,
    "error": Error,
}


def read_event(data: str | bytes) -> Event | None:
    """The event in `data`; None for a kind that is not known, pings among them. Raises BrokenReply."""
    try:
        kind = _EVENTS.get(msgspec.json.decode(data, type=_Kind).type)
        return msgspec.json.decode(data, type=kind) if kind else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenReply(f"an event cannot be read: {error}") from None
