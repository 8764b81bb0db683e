"""Tool calls as a provider sends them, checked before anybody may run one; pure.

A cut or damaged call can look complete. So arguments are parsed whole and strictly, and an id that was there before
fails the reply rather than getting a new one: it most likely is one call sent twice, and running a command twice does
more harm than a retry."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from infra.keep.depth import MAX_LEVELS, is_too_deep
from infra.keep.model_door.errors import BrokenReply
from infra.shared.conversation import ToolUse

_TOOL_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")
ID_LENGTH = 40
"""What OpenAI takes of a call's id."""


def check_ids(calls: Iterable[ToolUse], known: set[str]) -> None:
    """Raises BrokenReply for an id that is none, or was used before."""
    seen = set(known)
    for call in calls:
        if not _TOOL_ID.fullmatch(call.id):
            raise BrokenReply(f"tool call id {call.id!r} is not one; expected letters, digits, _ and -")
        if call.id in seen:
            raise BrokenReply(f"tool call id {call.id!r} was used before; no call of this reply is let through")
        seen.add(call.id)


def plain_id(id: str) -> str:
    """An id that every provider takes, the same for the same one: calls move from one provider to another."""
    if _TOOL_ID.fullmatch(id) and len(id) <= ID_LENGTH:
        return id
    return f"id_{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()[:32]}"


def arguments_of(text: str, name: str) -> dict[str, Any]:
    """The arguments of a call, from their JSON; no text at all stands for none. Raises BrokenReply for what JSON
    readers let pass (a key twice, NaN, 1e999, half a character), and for more levels than anybody after the door goes
    down."""
    try:
        found = json.loads(text if text.strip() else "{}", object_pairs_hook=_unrepeated, parse_constant=_no_constant)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        why = "half a character" if isinstance(error, UnicodeEncodeError) else str(error)
        raise BrokenReply(f"the arguments of a call of {name!r} are not JSON: {why}") from None
    if not isinstance(found, dict):
        raise BrokenReply(f"the arguments of a call of {name!r} are not a JSON object")
    if is_too_deep(found):
        raise BrokenReply(f"the arguments of a call of {name!r} are nested over {MAX_LEVELS} levels deep")
    return found


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return made


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
