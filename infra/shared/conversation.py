"""A conversation with a model, as the runner and the model door exchange it: plain HTTP with JSON over a unix
socket. The shapes follow Anthropic's Messages API; the door maps them to each provider.

`POST /v1/complete` takes `request_to_dict`; 200 answers `completion_to_dict`; any other status answers
`{"error": {"type": …, "message": …, "retry_after_seconds": …|null}}` with a type of `ERROR_TYPES`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeVar

COMPLETE_PATH = "/v1/complete"
HEALTH_PATH = "/health"

FIRST_MESSAGE = "Continue."
"""The first user message of every conversation (seed 001, Prompt Construction)."""


class Text(NamedTuple):
    text: str


class ToolUse(NamedTuple):
    id: str
    name: str
    input: dict[str, Any]


class ToolResult(NamedTuple):
    tool_use_id: str
    content: str
    is_error: bool = False


Block = Text | ToolUse | ToolResult


class Message(NamedTuple):
    role: str
    """`user` or `assistant`."""
    content: tuple[Block, ...]


class ToolSpec(NamedTuple):
    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the input object."""


class Request(NamedTuple):
    system: tuple[str, ...]
    """In order; SYSTEM.md first, because what changes least must come first for the provider's cache."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    unit: str = ""
    """The run that this call belongs to, for the ledger. What is counted for a unit of work is the door's own word."""
    model: str = ""
    """Which of the door's models is asked first, by its name; empty for the PM's order."""


MOST_TOKENS = 2**53
"""Of one class in one call: what JSON numbers hold exactly, and far beyond any model."""


class Usage(NamedTuple):
    """Tokens of one call, in the four classes that are priced apart; all zero when the provider did not say, and what
    the door writes to its ledger is the worst case."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0


class Spent(NamedTuple):
    """How much of a budget is used up: 0 nothing, 1 all of it."""

    day: float = 0.0
    unit: float = 0.0


class Completion(NamedTuple):
    content: tuple[Text | ToolUse, ...]
    stop_reason: str
    """One of `STOP_REASONS`."""
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


def block_to_dict(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolUse(id, name, input):
            return {"type": "tool_use", "id": id, "name": name, "input": input}
        case ToolResult(tool_use_id, content, is_error):
            return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error}


def block_from_dict(raw: dict[str, Any]) -> Block:
    """Raises ValueError for a shape that is none of ours."""
    try:
        match raw["type"]:
            case "text":
                return Text(_a(str, raw, "text"))
            case "tool_use":
                return ToolUse(_a(str, raw, "id"), _a(str, raw, "name"), _a(dict, raw, "input"))
            case "tool_result":
                return ToolResult(_a(str, raw, "tool_use_id"), _a(str, raw, "content"), _a(bool, raw, "is_error"))
            case other:
                raise ValueError(f"block type is {other!r}; expected text, tool_use or tool_result")
    except (KeyError, TypeError) as error:
        raise ValueError(f"a block lacks {error}") from None


_T = TypeVar("_T")


def _a(wanted: type[_T], raw: dict[str, Any], key: str) -> _T:
    """`raw[key]`, which must be of this very type: True is no number here."""
    value = raw[key]
    if type(value) is not wanted:
        raise ValueError(f"{key!r} is a {type(value).__name__}; expected a {wanted.__name__}")
    return value


def _strings(raw: dict[str, Any], key: str) -> tuple[str, ...]:
    values = _a(list, raw, key)
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{key!r} holds something else than strings")
    return tuple(values)


def request_to_dict(request: Request) -> dict[str, Any]:
    return {
        "system": list(request.system),
        "messages": [{"role": m.role, "content": [block_to_dict(b) for b in m.content]} for m in request.messages],
        "tools": [tool._asdict() for tool in request.tools],
        "unit": request.unit,
    } | ({"model": request.model} if request.model else {})


def request_from_dict(raw: dict[str, Any]) -> Request:
    """Raises ValueError for a shape that is not ours."""
    try:
        return Request(
            _strings(raw, "system"),
            tuple(_message(message) for message in _a(list, raw, "messages")),
            tuple(_tool(tool) for tool in _a(list, raw, "tools")),
            _a(str, {"unit": ""} | raw, "unit"),
            _a(str, {"model": ""} | raw, "model"),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the request is not a conversation of ours: {error!r}") from None


def _message(raw: dict[str, Any]) -> Message:
    if raw["role"] not in ("user", "assistant"):
        raise ValueError(f"'role' is {raw['role']!r}; expected user or assistant")
    return Message(raw["role"], tuple(block_from_dict(block) for block in _a(list, raw, "content")))


def _tool(raw: dict[str, Any]) -> ToolSpec:
    return ToolSpec(_a(str, raw, "name"), _a(str, raw, "description"), _a(dict, raw, "input_schema"))


def completion_to_dict(completion: Completion) -> dict[str, Any]:
    return {
        "content": [block_to_dict(b) for b in completion.content],
        "stop_reason": completion.stop_reason,
        "model": completion.model,
        "usage": completion.usage._asdict(),
        "spent": completion.spent._asdict(),
    }


def completion_from_dict(raw: dict[str, Any]) -> Completion:
    """Raises ValueError for a shape that is not ours."""
    try:
        if raw["stop_reason"] not in STOP_REASONS:
            raise ValueError(f"stop_reason is {raw['stop_reason']!r}; expected one of {', '.join(STOP_REASONS)}")
        blocks = tuple(_said(block_from_dict(block)) for block in _a(list, raw, "content"))
        counts = _a(dict, raw, "usage")
        usage = Usage(**{key: _count(counts, key) for key in counts})
        shares = _a(dict, {"spent": {}} | raw, "spent")
        spent = Spent(**{key: _share(shares, key) for key in shares})
        return Completion(blocks, raw["stop_reason"], _a(str, raw, "model"), usage, spent)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the completion is not one of ours: {error!r}") from None


def _count(raw: dict[str, Any], key: str) -> int:
    value = _a(int, raw, key)
    if not 0 <= value <= MOST_TOKENS:
        raise ValueError(f"{key!r} is no number of tokens; expected one from 0 to {MOST_TOKENS}")
    return value


def _share(raw: dict[str, Any], key: str) -> float:
    value = _a(float, raw, key)
    if not 0 <= value < math.inf:
        raise ValueError(f"{key!r} is {value}; expected a share from 0 up")
    return value


def _said(block: Block) -> Text | ToolUse:
    if isinstance(block, ToolResult):
        raise ValueError("a completion holds a tool_result; expected text and tool_use only")
    return block


OPENING_PREFIX = "opening-"
"""Ids of tool calls that the runner itself puts at the start of a conversation begin so; the model never made them."""
