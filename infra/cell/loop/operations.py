"""Operations as calls of tools, and replies of tools as events: one registry, one dispatcher and one gate for both ways
of asking for an act. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from infra.cell.loop.registry import REFUSED, Dispatcher, Reply
from infra.shared.conversation import ToolUse
from infra.shared.protocol.calls import HOPS, SIGNALS, TYPES, call_of
from infra.shared.protocol.shapes import (
    AWAITING,
    DENIED,
    EVENTS,
    EXECUTION,
    FAILED,
    NOT_RUN,
    OK,
    POLICY,
    PROTOCOL,
    TIMEOUT,
    UNAVAILABLE,
    VALIDATION,
    Operation,
    OperationError,
    ProtocolEvent,
    RefusedOperation,
)

_TEXT: Final = {"readFile": "content", "shell": "stdout"}
"""The field of an event that is the content of the reply."""
_STATUSES: Final = {"denied": DENIED, "awaiting_approval": AWAITING, "not_run": NOT_RUN}
_ERRORS: Final[Mapping[str, tuple[str, bool, str]]] = {
    "invalid_arguments": (VALIDATION, True, "write the operation in the right form"),
    "unknown_tool": (VALIDATION, True, "use one of the six operations"),
    "denied": (POLICY, False, "do something else, or say in your report why it is needed"),
    "awaiting_approval": (POLICY, True, "do other work, or end with your report; the PM's answer starts you again"),
    "timeout": (TIMEOUT, True, "give it less to do, or more time"),
    "git_error": (UNAVAILABLE, True, "try it once more; if it fails again, say so in your report"),
    "not_run": (UNAVAILABLE, True, "ask for it again if it is still to be done"),
    "internal": (EXECUTION, False, "do it another way; logs/errors.log has the cause"),
    "cut_short": (EXECUTION, True, "look how far it came before you do it again"),
}
"""By the code of a reply: the type, whether the same may do later, and the hint where the tool has none."""
_FAILED_ACT: Final = (EXECUTION, True, "look at what is there, then try another way")

HANDED_OVER: Final = Reply("a call before it in the same reply ended this run", is_error=True, error_code="not_run")


def calls_of(items: Iterable[Operation | RefusedOperation]) -> tuple[ToolUse, ...]:
    """A call for each, in order; a message asks for nothing."""
    return tuple(_call(item) for item in items if isinstance(item, RefusedOperation) or item.type != "message")


def _call(item: Operation | RefusedOperation) -> ToolUse:
    if isinstance(item, RefusedOperation):
        return ToolUse(item.id, REFUSED, {"type": item.type, "message": item.error.message, "hint": item.error.hint})
    name, given = call_of(item)
    return ToolUse(item.id, name, given)


def event_of(call: ToolUse, reply: Reply) -> ProtocolEvent:
    """What became of the operation that this call carries out."""
    kind = call.input["type"] if call.name == REFUSED else TYPES[call.name]
    known = {field.name for field in EVENTS[kind]}
    fields = {name: value for name, value in reply.facts.items() if name in known}
    if call.name in HOPS:
        fields["path"] = f"{SIGNALS}/{call.name}"
        if not reply.is_error:
            fields["bytes"] = len(call.input[HOPS[call.name]].encode())
    if kind in _TEXT and (not reply.is_error or "stderr" in fields):
        fields[_TEXT[kind]] = reply.content
    if not reply.is_error:
        return ProtocolEvent(kind, call.id, OK, fields)
    if "path" in known and isinstance(call.input.get("path"), str):
        fields["path"] = call.input["path"]
    error_type, retriable, hint = _ERRORS.get(reply.error_code, _FAILED_ACT)
    message = reply.content.removeprefix(f"{call.name}: ") if _TEXT.get(kind) not in fields else "its time was over"
    error = OperationError(error_type, message, retriable, reply.hint or hint)
    return ProtocolEvent(kind, call.id, _STATUSES.get(reply.error_code, FAILED), fields, error)


def carry_out(items: Iterable[Operation | RefusedOperation], dispatcher: Dispatcher) -> Iterator[ProtocolEvent]:
    """In the order of the list. One that fails stops no other; behind one that hands over nothing is done."""
    handed_over = False
    for call in calls_of(items):
        reply = HANDED_OVER if handed_over else dispatcher.call(call)
        handed_over = handed_over or reply.hands_over
        yield event_of(call, reply)


def said(text: str, by: str = "runtime") -> ProtocolEvent:
    """Words for the agent, by `pm` or `runtime`."""
    return ProtocolEvent("userMessage", "", OK, {"text": text, "from": by})


def message_of(events: Sequence[ProtocolEvent]) -> str:
    """The runtime's message as text."""
    plain: dict[str, Any] = {"protocol": PROTOCOL, "events": [event.plain() for event in events]}
    text = json.dumps(plain, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # an id may hold half a character
        return json.dumps(plain)
    return text
