"""What a reply of a model asks for: operations, each one valid or refused by itself; words; or nothing at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from infra.cell.protocol.framing import Framed, NotTaken, Why, Words, frame
from infra.cell.protocol.json_text import Doubled
from infra.cell.protocol.shapes import (
    MOST_ID_CHARS,
    MOST_OPERATIONS,
    OPERATIONS,
    PROTOCOL,
    VALIDATION,
    Field,
    Operation,
    OperationError,
    RefusedOperation,
)


class Requested(NamedTuple):
    """What a reply asks for."""

    items: tuple[Operation | RefusedOperation, ...]
    """In the order of the list."""
    prose: str = ""
    """What stands beside the list."""
    notes: tuple[str, ...] = ()
    """What was left out of the reply, for the model."""


def read(text: str, cut: bool = False) -> Requested | Words | NotTaken:
    """`cut` when the provider says that the reply ended at the limit of tokens."""
    framed = frame(text, cut)
    return framed if not isinstance(framed, Framed) else _asked(framed)


def form(kind: str) -> str:
    """How an operation of this type is written."""
    words = [f'"type": "{kind}"']
    words += [f'"{field.name}": {_EXAMPLES[field.kind]}' for field in OPERATIONS[kind] if field.required]
    optional = [field.name for field in OPERATIONS[kind] if not field.required]
    return "{" + ", ".join(words) + "}" + (f" (optional: {', '.join(optional)})" if optional else "")


_EXAMPLES = {"text": '"…"', "path": '"src/a.py"'}
_WRAPPING = {"operations", "protocol", "protocolVersion", "version", "events"}


def _asked(framed: Framed) -> Requested | NotTaken:
    value, notes = framed.value, framed.notes
    if isinstance(value, Doubled) and "operations" in value:
        return NotTaken(Why.FORM, f"the key {value.keys_twice[0]!r} stands twice beside the list; expected it once")
    if isinstance(value, dict) and "operations" in value:
        version = next((value[key] for key in ("protocol", "protocolVersion", "version") if key in value), PROTOCOL)
        if version not in (PROTOCOL, str(PROTOCOL)) or isinstance(version, bool):
            return NotTaken(Why.FORM, f"protocol {version!r} is not known; expected {PROTOCOL}")
        extra = sorted(value.keys() - _WRAPPING)
        if extra:
            return NotTaken(
                Why.FORM, f"unknown key {extra[0][:100]!r} beside the list; expected protocol and operations"
            )
        if "events" in value:
            notes += ("what you wrote as events was dropped: only the runtime writes events",)
        value = value["operations"]
        if not isinstance(value, list):
            return NotTaken(Why.FORM, f"operations is {_kind_of(value)}; expected a list")
    elements = value if isinstance(value, list) else [value]
    if len(elements) > MOST_OPERATIONS:
        return NotTaken(Why.FORM, f"the list holds {len(elements)} operations; expected at most {MOST_OPERATIONS}")
    if elements and not any(isinstance(element, dict) for element in elements):
        return NotTaken(Why.CUT, f"the list holds {_kind_of(elements[0])}; expected operations, each an object")
    missing = _missing(elements, framed.blocks)
    if missing:
        return NotTaken(
            Why.CUT, f"{missing[:100]!r} is not there; expected a fence '```block {missing[:100]}' behind the list"
        )
    seen: set[str] = set()
    items = tuple(_item(element, number, framed.blocks, seen) for number, element in enumerate(elements, 1))
    return Requested(items, framed.prose, notes)


def _missing(elements: list[Any], blocks: Mapping[str, str | None]) -> str:
    """A block that is wanted, and before which the reply may have been cut; empty where there is none, or where another
    one that nobody wants says that only a name is wrong."""
    values = (value for element in elements if isinstance(element, dict) for value in element.values())
    names = (value.get("block") for value in values if isinstance(value, dict))
    wanted = {name for name in names if isinstance(name, str)}
    return min(wanted - blocks.keys(), default="") if blocks.keys() <= wanted else ""


def _item(element: Any, number: int, blocks: Mapping[str, str | None], seen: set[str]) -> Operation | RefusedOperation:
    given = element.get("id") if isinstance(element, dict) else None
    name = given if isinstance(given, str) and given and len(given) <= MOST_ID_CHARS else str(number)
    kind = element.get("type") if isinstance(element, dict) else None
    known = kind if isinstance(kind, str) and kind in OPERATIONS else None
    problem = next(_problems(element, seen, name, known), None)
    fields: dict[str, Any] = {}
    if known is not None and problem is None:
        taken = {key: value for key, value in element.items() if value is not None and key not in ("id", "type")}
        for field in OPERATIONS[known]:
            if field.name in taken and problem is None:
                fields[field.name], problem = _value(field, taken[field.name], blocks)
        problem = problem or next(oddities(known, fields), None)
    seen.add(name)
    if known is None or problem is not None:
        found = problem or ""
        shown = known if known not in (None, "message") else None
        hint = f"write it as {form(known)}" if known else f"write one such as {form('shell')}"
        return RefusedOperation(name, shown or "userMessage", OperationError(VALIDATION, found, True, hint))
    return Operation(name, known, fields)


def _problems(element: Any, seen: set[str], name: str, known: str | None) -> Iterator[str]:
    if not isinstance(element, dict):
        yield f"expected an operation, an object; found {_kind_of(element)}"
        return
    if isinstance(element, Doubled):
        yield f"the key {element.keys_twice[0][:100]!r} stands twice; expected it once"
    if known is None:
        found = next((key for key in ("operation", "action", "tool", "name") if key in element), None)
        kind = element.get("type")
        what = f"type is {kind!r:.100}" if kind is not None else "type is missing"
        what += f" ({found!r} is no field)" if kind is None and found else ""
        yield f"{what}; expected one of {', '.join(OPERATIONS)}"
        return
    given = element.get("id")
    if given is not None and (not isinstance(given, str) or not given or len(given) > MOST_ID_CHARS):
        yield f"id is {_kind_of(given)}; expected a string of 1 to {MOST_ID_CHARS} characters"
    if name in seen:
        yield f"id {name[:100]!r} stands twice in the list; expected each id once"
    fields = {field.name: field for field in OPERATIONS[known]}
    for key in element:
        if key not in fields and key not in ("id", "type"):
            yield f"unknown field {key[:100]!r}; {known} takes {', '.join(fields)}"
    for field in fields.values():
        if field.required and element.get(field.name) is None:
            yield f"{field.name} is missing; expected {_EXPECTED[field.kind]}"


_EXPECTED = {
    "text": "a string, or a block",
    "path": "the path of a file",
    "seconds": "a number above 0",
    "lines": "an integer from 0 up",
    "count": "an integer from 1 up",
    "flag": "true or false",
}


def _value(field: Field, value: Any, blocks: Mapping[str, str | None]) -> tuple[Any, str | None]:
    """What the field holds, or why it cannot."""
    if field.kind == "text" and isinstance(value, dict):
        if value.keys() != {"block"} or not isinstance(value["block"], str) or isinstance(value, Doubled):
            return None, f'{field.name} is an object; expected a string, or {{"block": "NAME"}}'
        name = value["block"]
        if name not in blocks:
            return (
                None,
                f"{field.name} wants the block {name[:100]!r}; expected a fence '```block {name[:100]}' after the list",
            )
        if (text := blocks[name]) is None:
            return (
                None,
                f"the block {name[:100]!r} stands twice, or a fence in it is as long as its own; "
                "expected it once, in a longer fence",
            )
        value = text
    fits = {
        "text": isinstance(value, str),
        "path": isinstance(value, str),
        "flag": isinstance(value, bool),
        "seconds": isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9,
        "lines": isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53,
        "count": isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**53,
    }
    if not fits[field.kind]:
        return None, f"{field.name} is {_kind_of(value)}; expected {_EXPECTED[field.kind]}"
    if isinstance(value, str):
        if not _is_plain(value):
            return None, f"{field.name} holds a lone surrogate, which no file and no command line can hold"
        if field.kind == "path" and (problem := _path_problem(value)):
            return None, f"{field.name} {value[:100]!r} {problem}; expected the path alone, such as src/a.py"
    return value, None


def _path_problem(path: str) -> str:
    if not path.strip():
        return "is empty"
    if path != path.strip() or any(ord(character) < 32 for character in path):
        return "holds white space at its ends, or a control character"
    if path[0] in "`*#\"'<" or path[-1] in "`*\"':,>":
        return "is in marks that belong to prose"
    return ""


_PLACEHOLDER = re.compile(r"\s*(?:\$\{?RESULT\w*\}?|<(?:output|result) of [^>]*>|\{\{[^}]*\}\})\s*", re.IGNORECASE)
_PATCH = re.compile(r"\s*(?:\*{3,} *Begin Patch|apply_patch\b)")
_MARKERS = re.compile(r"^(?:<{5,} ?SEARCH|>{5,} ?REPLACE|:start_line:)", re.MULTILINE)
_ELISION = re.compile(
    r"^[ \t]*(?:(?:#|//|--|/\*)[ \t]*)?(?:\.{3}|…)"
    r"(?:[ \t]*(?:\(?(?:rest|existing|remaining|same|unchanged)\b.*))?[ \t]*(?:\*/)?$"
    r"|^[ \t]*(?:#|//|--|/\*)[ \t]*(?:rest of|existing)\b.*\b(?:code|file|unchanged|here)\b",
    re.MULTILINE | re.IGNORECASE,
)


def is_elided(text: str) -> bool:
    """It holds a line that stands for lines left out."""
    return _ELISION.search(text) is not None


def oddities(kind: str, fields: Mapping[str, Any], called: Callable[[str], str] = str) -> Iterator[str]:
    """What fits the form, and cannot be what was meant. `called` gives what an operation is called to the reader."""
    for name, value in fields.items():
        if isinstance(value, str) and _PLACEHOLDER.fullmatch(value) and kind != "message":
            yield (
                f"{name} is {value.strip()[:100]!r}, which stands for a result of another operation; "
                "expected the text itself, in a later reply"
            )
    if kind == "shell":
        command = fields["command"]
        if not command.strip():
            yield "command is empty; expected a command line for bash"
        if "\0" in command:
            yield "command holds a NUL character, which no command line can hold"
        if _PATCH.match(command) or re.search(r"<<-?\s*['\"]?\w+['\"]?\s*\n\*{3,} *Begin Patch", command):
            line = command.strip().split("\n", 1)[0][:100]
            yield f"command begins with {line!r}, a patch; expected a command line for bash, or editFile for a change"
    if kind == "editFile":
        old, new = fields["old"], fields["new"]
        if not old:
            yield f"old is empty; expected text that the file holds, or {called('createFile')} for a new file"
        elif old == new:
            yield "old and new are equal; expected a change"
        if _MARKERS.search(old) or _MARKERS.search(new):
            yield "old or new holds the markers of another format; expected the literal text of the file"
        if is_elided(new) and not is_elided(old):
            yield "new stands for lines that it leaves out; expected the whole text that replaces old"


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return f"the string {value[:60]!r}"
    return f"the number {str(value)[:60]}"
