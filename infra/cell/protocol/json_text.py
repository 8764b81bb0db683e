"""Reading one JSON container out of a text: where it ends, whether it was cut, and its value.

Two slips that cannot change the content are forgiven: a comma before a closing bracket, and a raw line break or tab
in a string. Everything else is refused, because a guess could run half a command. Time is linear in the text."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NamedTuple

DEPTH = 64

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
_CLOSES = {"]": "[", "}": "{"}


class TooDeep(Exception):
    """The container nests more than DEPTH levels."""


class Container(NamedTuple):
    """The text of one container."""

    end: int
    """The position behind it; the length of the whole text when it is not closed."""
    text: str
    closed: bool
    problem: str = ""
    """Brackets that do not match."""


class Doubled(dict[str, Any]):
    """An object in which a key stands twice."""

    keys_twice: tuple[str, ...] = ()


class JsonProblem(Exception):
    """Why a closed container is no JSON; the text says where, and shows what stands there."""


def container_at(text: str, start: int) -> Container:
    """The container that begins at `start`, with commas before closing brackets taken out. Raises TooDeep."""
    stack: list[str] = []
    pieces: list[str] = []
    kept = start
    comma = -1  # where the comma stands after which nothing but white space has come
    after = start
    for match in _TOKEN.finditer(text, start):
        found, at = match[0], match.start()
        if comma >= 0 and text[comma + 1 : at].strip(" \t\r\n"):
            comma = -1
        if found == '"':  # it has no end
            break
        if found in "[{":
            stack.append(found)
            if len(stack) > DEPTH:
                raise TooDeep
        elif found in "]}":
            if comma >= 0:
                pieces.append(text[kept:comma])
                kept = comma + 1
            if stack.pop() != _CLOSES[found]:
                return Container(at, "", True, f"{found!r} closes what another bracket opened")
            if not stack:
                pieces.append(text[kept : match.end()])
                return Container(match.end(), "".join(pieces), True)
        # A comma counts as the last one of a container only behind an element: not in "[,]", nor behind another comma.
        is_last = found == "," and not (text[after - 1] in "[{," and not text[after:at].strip())
        comma = at if is_last else -1
        after = match.end()
    return Container(len(text), text[start:], False)


def value_of(text: str) -> Any:
    """The value of a closed container. Raises JsonProblem."""
    try:
        return json.loads(text, strict=False, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        line = text[: error.pos].count("\n") + 1
        shown = text[error.pos : error.pos + 30].split("\n")[0]
        raise JsonProblem(f"{error.msg} in line {line} of the list, at {shown!r}") from None
    except (ValueError, RecursionError) as error:  # digits beyond what Python converts
        raise JsonProblem(str(error)) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON; expected a number, or null")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    doubled = Doubled(found)
    doubled.keys_twice = tuple(sorted(name for name, count in Counter(name for name, _ in pairs).items() if count > 1))
    return doubled
