"""Operations as calls of tools, and results of tools as events: one registry, one dispatcher and one gate for both ways
of asking for an act. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.protocol.operations import (
    EVENTS,
    HOPS,
    MESSAGE,
    PROTOCOL,
    SIGNALS,
    TYPES,
    Event,
    OperationError,
    UserMessage,
)
from infra.cell.tools.tool import REFUSED

_TEXT: Final = {"readFile": "content", "shell": "stdout"}
"""The field of an event that is the payload of the result."""
HANDED_OVER: Final = ToolResult.err("not_run", "a call before it in the same reply ended this run")


def calls_of(items: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """What is to be carried out, in order; a message asks for nothing."""
    return tuple(item for item in items if item.name != MESSAGE)


def event_of(call: ToolCall, result: ToolResult) -> Event:
    """What became of the operation that this call carries out."""
    kind = call.args["type"] if call.name == REFUSED else TYPES[call.name]
    known = EVENTS[kind].__struct_fields__
    fields: dict[str, Any] = {name: value for name, value in result.facts.items() if name in known}
    if call.name in HOPS:
        fields["path"] = f"{SIGNALS}/{call.name}"
        if result.ok:
            fields["bytes"] = len(call.args[HOPS[call.name]].encode())
    if kind in _TEXT and (result.ok or "stderr" in fields):
        fields[_TEXT[kind]] = result.payload
    if result.ok:
        return EVENTS[kind](**fields, operation=call.id, status="ok")
    if "path" in known and isinstance(call.args.get("path"), str):
        fields["path"] = call.args["path"]
    is_told = _TEXT.get(kind) not in fields
    message = result.payload.removeprefix(f"{call.name}: ") if is_told else "; ".join(result.facts.get("notes", ()))
    error: dict[str, Any] = {
        "type": result.error_code,
        "message": message,
        "retriable": result.retriable,
        "hint": result.hint,
    }
    fields |= {"operation": call.id, "status": result.status, "error": OperationError(**error)}
    return EVENTS[kind](**fields)


def said(text: str, by: str = "runtime") -> Event:
    """Words for the agent, by `pm` or `runtime`."""
    return UserMessage(status="ok", text=text, by=by)


def message_of(events: Sequence[Event]) -> str:
    """The runtime's message as text; without spaces, as it is sent again with each step."""
    plain: dict[str, Any] = {"protocol": PROTOCOL, "events": [event.plain() for event in events]}
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # an id may hold half a character
        return json.dumps(plain)
    return text
