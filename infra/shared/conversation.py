"""A conversation with a model, as the runner and the model door exchange it: plain HTTP with JSON over a unix
socket. The shapes follow Anthropic's Messages API; the door maps them to each provider.

`POST /v1/complete` takes a `Request`; 200 answers a `Completion`; any other status answers
`{"error": {"type": …, "message": …, "retry_after_seconds": …|null}}` with a type of `ERROR_TYPES`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

import msgspec

COMPLETE_PATH = "/v1/complete"
HEALTH_PATH = "/health"
ACTS_PATH = "/v1/acts"
"""How a run that begins now asks for acts: `{"acts": "tools" | "operations"}`."""

FIRST_MESSAGE = "Continue."
"""The first user message of every conversation."""
OPENING_PREFIX = "opening-"
"""Ids of tool calls that the runner itself puts at the start of a conversation begin so; the model never made them."""

_S = TypeVar("_S", bound="Value")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frozen part of a conversation."""

    def _replace(self: _S, **changes: Any) -> _S:
        return msgspec.structs.replace(self, **changes)

    def __iter__(self) -> Iterator[Any]:
        return iter(msgspec.structs.astuple(self))


class Text(Value, frozen=True, tag_field="type", tag="text"):
    text: str


class ToolUse(Value, frozen=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class ToolResult(Value, frozen=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str
    is_error: bool = False


Block = Text | ToolUse | ToolResult


class Message(Value, frozen=True):
    role: Literal["user", "assistant"]
    content: tuple[Block, ...]


class ToolSpec(Value, frozen=True):
    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the input object."""


class Request(Value, frozen=True):
    system: tuple[str, ...]
    """In order; SYSTEM.md first, because what changes least must come first for the provider's cache."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    unit: str = ""
    """The run that this call belongs to, for the ledger. What is counted for a run is the door's own word."""
    model: str = ""
    """Which of the door's models is asked first, by its name; empty for the PM's order."""


MOST_TOKENS = 2**53
"""Of one class in one call: what JSON numbers hold exactly, and far beyond any model."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
Share = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class Usage(Value, frozen=True):
    """Tokens of one call, in the four classes that are priced apart; all zero when the provider did not say, and what
    the door writes to its ledger is the worst case."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_write_tokens: Count = 0
    cache_read_tokens: Count = 0


class Spent(Value, frozen=True):
    """How much of a budget is used up: 0 nothing, 1 all of it."""

    day: Share = 0.0
    unit: Share = 0.0


class Completion(Value, frozen=True, forbid_unknown_fields=False):
    content: tuple[Text | ToolUse, ...]
    stop_reason: Annotated[str, msgspec.Meta(pattern="^(end_turn|tool_use|max_tokens|refusal)$")]
    model: str
    usage: Usage = Usage()
    spent: Spent = Spent()
    """With this call; the door fills it in."""


END_TURN, TOOL_USE, MAX_TOKENS, REFUSAL = "end_turn", "tool_use", "max_tokens", "refusal"
STOP_REASONS = (END_TURN, TOOL_USE, MAX_TOKENS, REFUSAL)
"""Tool calls in a completion may be run only when the reason is `tool_use`: a cut call looks complete otherwise."""

ERROR_TYPES = {
    "invalid_request": 400,
    "authentication": 401,
    "budget_exhausted": 402,
    "unit_budget_exhausted": 403,
    "context_overflow": 413,
    "rate_limited": 429,
    "provider_error": 502,
    "unavailable": 503,
}
"""Error type -> HTTP status of the door's answer."""


def to_plain(value: Value) -> dict[str, Any]:
    """As JSON holds it. Raises TypeError for what it cannot hold."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def request_from_dict(raw: Any) -> Request:
    """Raises ValueError for a shape that is not ours."""
    return msgspec.convert(raw, Request)


def completion_from_dict(raw: Any) -> Completion:
    """Raises ValueError for a shape that is not ours."""
    return msgspec.convert(raw, Completion)
