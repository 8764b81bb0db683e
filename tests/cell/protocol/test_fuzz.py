"""Nothing that a model may write is a crash, or has a part of it carried out that another parser would not see.

Replies by the thousand: whole ones as models write them, beginnings of these, and damaged ones."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from infra.cell.actions import ToolCall
from infra.cell.protocol.operations import OPERATIONS
from infra.cell.protocol.read import read
from infra.cell.tools.tool import REFUSED
from tests.cell.protocol.test_read import verdict

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


def operation(chance: random.Random) -> dict[str, Any]:
    kind = chance.choice(list(OPERATIONS))
    fields = [each for each in msgspec.structs.fields(OPERATIONS[kind]) if each.required or chance.random() < 0.3]
    return {"type": kind} | {each.name: chance.choice(VALUES.get(each.name, TEXTS)) for each in fields}


def whole(chance: random.Random) -> tuple[str, int]:
    """A reply that a careful model writes; without one of so many characters from its beginning, it is not whole."""
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
        return f"{before}{text}{end}", needed + len(end) - 1
    return f"{before}{text}{behind}", needed


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
        text, needed = chance.choice(pool)
        if number % 3:
            yield damaged(chance, text, chance.choice(pool)[0]), False
        else:
            yield text[: chance.randrange(needed)], True


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
    if all(item.name == REFUSED for item in found.items) or stands_in(text, found.items):
        return ""
    return "what is carried out stands nowhere as JSON"


LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL)
"""Before a closing bracket, and behind no quote that is open."""


def stands_in(text: str, items: tuple[ToolCall, ...]) -> bool:
    """Anything in it that is JSON, as another parser sees it, or is so without such commas, has so many elements, each
    of which asks for the same when it stands alone, in its plainest form."""
    for mended in (str, lambda part: LAST_COMMA.sub(r"\1", part)):
        for at in (at for at, character in enumerate(text) if character in "[{"):
            part, *blocks = re.split("^(?=`{3,} ?block )", text[at:], maxsplit=1, flags=re.MULTILINE)
            try:
                value, _ = json.JSONDecoder(strict=False).raw_decode(mended(part))
                listed = value.get("operations", [value]) if isinstance(value, dict) else value
                said = [f"{json.dumps([each])}\n{''.join(blocks)}" for each in listed]
                if len(said) == len(items) and all(
                    item.name == REFUSED or read(one).items[0][1:] == item[1:]
                    for one, item in zip(said, items, strict=True)
                ):
                    return True
            except (ValueError, TypeError, LookupError, RecursionError):
                continue
    return False


def examine(seed: int, count: int) -> None:
    wrong = [(why, text) for text, is_beginning in inputs(seed, count) if (why := problem(text, is_beginning))]
    assert wrong == []


@pytest.mark.attack("S51")
@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.heavy)])
def test_thousands_of_replies(count: int) -> None:
    examine(1, count)


def test_what_is_tried_is_worth_it() -> None:
    """The control: whole replies are taken, damaged ones now and then, and a wrong reading is noticed."""
    chance = random.Random(2)
    replies = [read(whole(chance)[0]) for _ in range(500)]
    names = Counter(item.name for reply in replies for item in reply.items)
    assert names.pop(REFUSED) < 100, "commands of white space alone"
    assert min(names.values()) > 20
    found = Counter(verdict(text) for text, is_beginning in inputs(3, 1000) if not is_beginning)
    assert min(found[name] for name in ("take", "stop", "words")) > 20
    text = '[{"type": "shell", "command": "ls"}]'
    assert problem(text, True)
    assert not problem(text, False)


NASTY = (
    *PIECES,
    *(
        "<think></think>",
        "```block A\n```\n",
        "```block A\n",
        "[{}]\n",
        "{}\n{",
        '[{"type":',
        '{"a":"\\"",',
        ",\n",
        "{x",
    ),
    *('[{"type": "shell", "command": "ls"},\n', '{"block": "A"},', "[[]],", '"\n"', '\\"', "...\n", " ", "x", "x\n"),
    *("}\n]\n", "{x"),
)
SIZE, TIMES = 4000, 8


def seconds(text: str) -> float:
    """Of this process alone, at best."""

    def once() -> float:
        began = time.process_time()
        verdict(text)
        return time.process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.parametrize("frame", ["{}", "[{}", '[{{"type": "shell", "command": "{}', "I look.\n```json\n{}\n```"])
@pytest.mark.heavy
def test_the_time_to_read_grows_with_the_size_alone(frame: str) -> None:
    """Eight times as much takes eight times as long, not sixty-four times, whatever is repeated."""
    slow = {}
    for piece in NASTY:
        short, long = (frame.format(piece * (size // len(piece))) for size in (SIZE, SIZE * TIMES))
        if (ratio := seconds(long) / (seconds(short) + 0.0005)) > 3 * TIMES:
            slow[piece] = ratio
    assert slow == {}
