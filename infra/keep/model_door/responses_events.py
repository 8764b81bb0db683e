"""The events of the Responses API, as far as this door knows them: their shapes, strictly read; pure."""

from __future__ import annotations

from typing import Annotated

import msgspec

from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.shared.conversation import Count, Usage

MAX_ITEMS = 2000
"""In one reply."""
Index = Annotated[int, msgspec.Meta(ge=0, lt=MAX_ITEMS)]


class Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    refusal: str = ""


class Item(msgspec.Struct, frozen=True):
    type: str
    status: str | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    content: list[Part] | None = None
    phase: str | None = None
    id: str | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None


class _PromptTokens(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class Tokens(msgspec.Struct, frozen=True):
    input_tokens: Count
    output_tokens: Count
    input_tokens_details: _PromptTokens | None = None


class _Why(msgspec.Struct, frozen=True):
    reason: str | None = None


class Fault(msgspec.Struct, frozen=True):
    code: str | None = None
    type: str | None = None
    message: str | None = None


class Response(msgspec.Struct, frozen=True):
    model: str = ""
    status: str | None = None
    usage: Tokens | None = None
    incomplete_details: _Why | None = None
    error: Fault | None = None
    output: list[Item] | None = None


class OfResponse(msgspec.Struct, frozen=True):
    """An event about the response itself."""

    response: Response


class OfItem(msgspec.Struct, frozen=True):
    output_index: Index
    item: Item


class Delta(msgspec.Struct, frozen=True):
    output_index: Index
    delta: str
    content_index: Index = 0


class ErrorEvent(msgspec.Struct, frozen=True):
    """Flat by the format; some servers put it into a frame."""

    code: str | None = None
    message: str | None = None
    error: Fault | None = None


class _Kind(msgspec.Struct, frozen=True):
    type: str


Event = OfResponse | OfItem | Delta | ErrorEvent
CREATED, ADDED, DONE = "response.created", "response.output_item.added", "response.output_item.done"
COMPLETED, INCOMPLETE, FAILED, ERROR = "response.completed", "response.incomplete", "response.failed", "error"
TEXT, REFUSAL_TEXT = "response.output_text.delta", "response.refusal.delta"
ARGUMENTS = "response.function_call_arguments.delta"
THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_EVENTS: dict[str, type[Event]] = {
    **dict.fromkeys((CREATED, COMPLETED, INCOMPLETE, FAILED), OfResponse),
    **dict.fromkeys((ADDED, DONE), OfItem),
    **dict.fromkeys((TEXT, REFUSAL_TEXT, ARGUMENTS, *THOUGHTS), Delta),
    ERROR: ErrorEvent,
}


def read_event(data: bytes) -> tuple[str, Event | None]:
    """The kind of the event in `data`, and what it says; nothing when that kind is not known. Raises BrokenReply."""
    try:
        kind = msgspec.json.decode(data, type=_Kind).type
        return kind, msgspec.json.decode(data, type=_EVENTS[kind]) if kind in _EVENTS else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenReply(f"an event cannot be read: {error}") from None


def usage_of(told: Tokens) -> Usage | None:
    """What is cached is counted within the prompt; here each token stands in one class. None for figures that
    contradict each other."""
    details = told.input_tokens_details or _PromptTokens()
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    fresh = told.input_tokens - read - written
    return Usage(fresh, told.output_tokens, written, read) if fresh >= 0 else None


def provider_error(fault: Fault) -> ProviderError:
    return ProviderError(fault.code or fault.type or "error", fault.message or "no message")
