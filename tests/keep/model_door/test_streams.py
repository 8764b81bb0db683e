"""Streams of every dialect, damaged by chance: what comes of one is a failure that is named, or a reply that breaks no
law."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from infra.keep.depth import is_too_deep
from infra.keep.model_door.errors import BrokenReply, ProviderError
from infra.keep.model_door.tool_calls import arguments_of
from infra.shared.conversation import END_TURN, TOOL_USE, Completion, ToolUse, Usage
from tests.keep.model_door.dialects import DIALECTS, Called, Dialect
from tests.keep.model_door.test_conformance import BROKEN, every_dialect, heard_by_hand

KNOWN = frozenset(["call_0"])
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1.5, "", "call_0", "stop", "tool_use", "length", "text", "x", [], [1], [{}], [None]),
    *({}, {"a": 1}, {"type": "text"}, {"reason": "max_output_tokens"}, {"index": 0}, {"type": []}),
)


def a_stream(dialect: Dialect, chance: random.Random) -> list[bytes]:
    """A good reply, or one that is wrong in a known way."""
    if chance.random() < 0.2:
        sent = BROKEN[chance.choice([name for name in BROKEN if "deeper" not in name])](dialect)
        return list(sent.pieces)
    texts = [chance.choice(("", " ", "I act.", "Grüße, 世界")) for _ in range(chance.randrange(3))]
    inputs: tuple[dict[str, Any], ...] = ({}, {"n": 12345}, {"a": {"b": [1, None, "ü"]}, "c": "ls"})
    calls = [Called(f"call_{n + 1}", "bash", chance.choice(inputs)) for n in range(chance.randrange(4))]
    reason = chance.choice(("", "", "", dialect.cut, dialect.whole, dialect.called))
    return list(dialect.reply(texts, calls, reason))


def damaged(pieces: list[bytes], chance: random.Random) -> list[bytes]:
    """One thing made wrong."""
    made, at = list(pieces), chance.randrange(len(pieces))
    other = chance.randrange(len(pieces))
    match chance.choice(("drop", "double", "swap", "cut", "byte", "slice", "value", "value", "value")):
        case "drop":
            del made[at]
        case "double":
            made.insert(other, made[at])
        case "swap":
            made[at], made[other] = made[other], made[at]
        case "cut":
            del made[at:]
        case "byte":
            place = chance.randrange(len(made[at]))
            made[at] = made[at][:place] + bytes([chance.randrange(256)]) + made[at][place + 1 :]
        case "slice":
            start = chance.randrange(len(made[at]))
            made[at] = made[at][:start] + made[at][start + chance.randrange(20) :]
        case "value":
            made[at] = with_odd_value(made[at], chance)
    return made or pieces


def with_odd_value(piece: bytes, chance: random.Random) -> bytes:
    """One value, somewhere in the event's JSON, becomes another, or goes."""
    start, brace, rest = piece.partition(b"{")
    try:
        event = json.loads(brace + rest)
    except ValueError:
        return piece
    places: list[tuple[Any, Any]] = []
    open_values = [event]
    while open_values:
        value = open_values.pop()
        inner = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        places += [(value, key) for key, _ in inner]
        open_values += [each for _, each in inner if isinstance(each, dict | list)]
    if not places:
        return piece
    value, key = chance.choice(places)
    if chance.random() < 0.2:
        del value[key]
    else:
        value[key] = chance.choice(ODD)
    return start + json.dumps(event).encode() + b"\n\n"


def laws_broken(said: Completion, thought: bool) -> list[str]:
    calls = [block for block in said.content if isinstance(block, ToolUse)]
    ids = [call.id for call in calls]
    laws = {
        "calls when the turn ended by itself, and only then": bool(calls) == (said.stop_reason == TOOL_USE),
        "ids are new": len(set(ids)) == len(ids) and not KNOWN & set(ids),
        "ids and names are there": all(call.id and isinstance(call.name, str) and call.name for call in calls),
        "arguments are objects, strict and not too deep": all(
            isinstance(call.input, dict)
            and not is_too_deep(call.input)
            and arguments_of(json.dumps(call.input), "") == call.input
            for call in calls
        ),
        "something was said": bool(said.content or thought or said.stop_reason != END_TURN),
        "text is text": all(isinstance(block, ToolUse) or block.text.strip() for block in said.content),
        "counts are counts": isinstance(said.usage, Usage) and min(said.usage) >= 0,
        "the model is named": isinstance(said.model, str),
    }
    return [law for law, holds in laws.items() if not holds]


def accepted(dialect: Dialect, seeds: range) -> int:
    """How many of the streams of these seeds are taken for replies; each is held against the laws."""
    count = 0
    for seed in seeds:
        chance = random.Random(seed)
        pieces = a_stream(dialect, chance)
        for _ in range(chance.randrange(4)):
            pieces = damaged(pieces, chance)
        try:
            reply = heard_by_hand(dialect, pieces)
            said = reply.completion(KNOWN)
        except (BrokenReply, ProviderError):
            continue
        thought = any(part.kind == "thought" for part in reply.parts.values())
        assert laws_broken(said, thought) == [], f"seed {seed}: {pieces}"
        count += 1
    return count


@every_dialect
def test_no_damaged_stream_is_accepted_that_breaks_a_law(dialect: Dialect) -> None:
    """Some of them are good, or good enough."""
    assert 20 < accepted(dialect, range(200)) < 180


@pytest.mark.long
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
def test_no_damaged_stream_of_many_is_accepted_that_breaks_a_law(dialect: Dialect) -> None:
    """Thousands of each."""
    accepted(dialect, range(200, 5_000))
