"""Replies by the thousand: whole ones as models write them, beginnings of these, and damaged ones.

What is carried out of a damaged reply is held against a JSON parser that knows nothing of ours."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from infra.cell.protocol.operations import OPERATIONS, TYPES
from infra.cell.protocol.read import Requested, read
from infra.cell.tools.tool import REFUSED

TEXTS = (
    *("x", "ls -l", "a\nb\n", 'say "hi"', "C:\\n\\temp", "{'a': [1]}", '{"type": "shell", "command": "rm"}'),
    *("é\u2028\U0001f600", "```\ncode\n```\n", "[{", "}]", "...", "# rest of the code unchanged", "</tool_call>"),
    *("*** Begin Patch\n", "<think>", "&lt;", "\t", ",]", "<<<<<<< SEARCH\n", "null", "\\u0041", "\\", '"', "a, \n]"),
    "```block A\nx\n```",
)
VALUES: dict[str, tuple[Any, ...]] = {
    "path": ("a.py", "src/b.md", "./c", "a b"),
    "cwd": ("src", "."),
    "timeout": (1, 2.5),
    "offset": (0, 7),
    "limit": (1, 2),
    "count": (1, 2),
    "replace": (True, False),
}
PIECES = (
    *("[", "]", "{", "}", '"', "'", ",", ":", "\\", "\n", "`", "```", "```json\n", "\n```\n", "```block A\n", "~~~\n"),
    *("null", "...", "<think>", "</think>", "<!--", "-->", "\ufeff", "\u200b", "\0", "\ud800", "NaN", "1e999", "//"),
    *("/*", "#", "“", "[[[[", "{" * 70, '"type": "shell"', '{"type": "shell", "command": "ls"}', "<tool_call>", "\r\n"),
    *('[{"type": "deleteFile", "path": "a"}]', '{"events": []}', '"operations":', '{"block": "A"}', "[1] ", "> ", "- "),
    *("\\u00", "Done.", "  ", '"id": "1",'),
)
_DECODER = json.JSONDecoder(strict=False)


def operation(chance: random.Random) -> dict[str, Any]:
    kind = chance.choice(list(OPERATIONS))
    fields = [each for each in msgspec.structs.fields(OPERATIONS[kind]) if each.required or chance.random() < 0.3]
    return {"type": kind} | {each.name: chance.choice(VALUES.get(each.name, TEXTS)) for each in fields}


class Whole(NamedTuple):
    """A reply that a careful model writes."""

    text: str
    needed: int
    """Without one of so many characters from its beginning, it is not whole."""


def whole(chance: random.Random) -> Whole:
    made, blocks = [], []
    for number in range(chance.randint(1, 4)):
        made.append(operation(chance))
        for name in [each for each in made[-1] if each != "type" and each not in VALUES]:
            if chance.random() < 0.15:
                blocks.append(f"`````block B{number}{name}\n{made[-1][name]}\n`````\n")
                made[-1][name] = {"block": f"B{number}{name}"}
        if chance.random() < 0.2:
            made[-1]["id"] = f"op{number}"
    value: Any = made
    match chance.randint(0, 5):
        case 0:
            value = {"protocol": 1, "operations": made}
        case 1 if len(made) == 1:
            value = made[0]
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, None, 1)))
    if chance.random() < 0.2:
        text = re.sub(r"(?<!\\)\\n", "\n", text)
    if chance.random() < 0.2:
        text = f"{text[:-1]},{text[-1]}"
    before, behind = chance.choice(
        (("", ""), ("I look.\n\n", ""), ("```json\n", "\n```"), ("So:\n```\n", "\n```\nThen more."))
    )
    needed = len(before) + len(text)
    if blocks:
        end = behind + "\n" + "".join(blocks)
        return Whole(f"{before}{text}{end}", needed + len(end) - 1)
    return Whole(f"{before}{text}{behind}", needed)


def damaged(chance: random.Random, text: str, other: str) -> str:
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(text))
        to = min(len(text), at + chance.choice((1, 1, 2, 5, 30)))
        match chance.randint(0, 5):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + text[to:]
            case 2:
                text = text[:to] + text[at:]
            case 3:
                text = text[:at] + other[chance.randint(0, len(other)) :]
            case _:
                text = text[:at] + chance.choice(PIECES) + text[at if chance.random() < 0.5 else to :]
    return text


def inputs(seed: int, count: int) -> Iterator[tuple[str, bool]]:
    """Replies, and whether each is the beginning of a whole one."""
    chance = random.Random(seed)
    pool = [whole(chance) for _ in range(min(400, 20 + count // 20))]
    for number in range(count):
        one = chance.choice(pool)
        if number % 3:
            yield damaged(chance, one.text, chance.choice(pool).text), False
        else:
            yield one.text[: chance.randrange(one.needed)], True


def problem(text: str, is_beginning: bool) -> str:
    """What is wrong with how a reply is read; empty when nothing is."""
    try:
        found = read(text)
    except ValueError:
        return ""
    if not all(item.args["message"] for item in found.items if item.name == REFUSED):
        return "an operation is refused for no reason"
    if is_beginning and found.items:
        return "the beginning of a list is carried out"
    if all(item.name == REFUSED for item in found.items):
        return ""
    return (
        "" if any(_is(value, found, text) for value in _values(text)) else "what is carried out stands nowhere as JSON"
    )


def _values(text: str) -> Iterator[Any]:
    """Everything in it that is JSON, as another parser sees it; then without commas before closing brackets as well."""
    starts = [at for at, character in enumerate(text) if character in "[{"]
    for mended in (str, _without_last_commas):
        for at in starts:
            try:
                yield _DECODER.raw_decode(mended(text[at:]))[0]
            except (ValueError, RecursionError):
                continue


def _without_last_commas(text: str) -> str:
    kept: list[str] = []
    quoted = escaped = False
    for character in text:
        if quoted:
            escaped, quoted = character == "\\" and not escaped, escaped or character != '"'
        elif character == '"':
            quoted = True
        elif character in "]}":
            at = len(kept) - 1
            while at >= 0 and kept[at] in " \t\r\n":
                at -= 1
            if at >= 0 and kept[at] == ",":
                del kept[at]
        kept.append(character)
    return "".join(kept)


def _is(value: Any, found: Requested, text: str) -> bool:
    """It says these operations and no others, field by field."""
    elements = value.get("operations") if isinstance(value, dict) and "operations" in value else value
    elements = elements if isinstance(elements, list) else [elements]
    if len(elements) != len(found.items):
        return False
    for element, item in zip(elements, found.items, strict=True):
        if item.name != REFUSED:
            if not isinstance(element, dict) or element.get("type") != TYPES[item.name]:
                return False
            said = {name: each for name, each in element.items() if name not in ("type", "id") and each is not None}
            said = {"replace": False} | said if item.name == "write_file" else said
            if said.keys() != item.args.keys():
                return False
            if not all(_same(said[name], each, text) for name, each in item.args.items()):
                return False
    return True


def _same(said: Any, taken: Any, text: str) -> bool:
    if isinstance(said, dict):
        stands = said.keys() == {"block"} and rf"{re.escape(said['block'])}[ \t\r]*\n{re.escape(taken)}"
        return bool(stands and re.search(stands, text))
    return isinstance(said, bool) is isinstance(taken, bool) and bool(said == taken)
