"""What runner and model door say to each other: it survives the wire, and nothing else passes for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from infra.shared.conversation import (
    MOST_TOKENS,
    STOP_REASONS,
    Completion,
    Message,
    Request,
    Text,
    ToolResult,
    ToolSpec,
    ToolUse,
    Usage,
    to_plain,
)
from tests.shared.rows import each_row
from tests.shared.texts import any_text

WORDS = any_text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=3,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=2)
TEXTS = st.builds(Text, WORDS)
USES = st.builds(ToolUse, WORDS, WORDS, OBJECTS)
RESULTS = st.builds(ToolResult, WORDS, WORDS, st.booleans())


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


MESSAGES = st.builds(Message, st.sampled_from(["user", "assistant"]), some(TEXTS | USES | RESULTS))
REQUESTS = st.builds(Request, some(WORDS), some(MESSAGES), some(st.builds(ToolSpec, WORDS, WORDS, OBJECTS)), WORDS)
COUNTS = st.integers(0, MOST_TOKENS)
COMPLETIONS = st.builds(
    Completion,
    some(TEXTS | USES),
    st.sampled_from(STOP_REASONS),
    WORDS,
    st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS),
    st.floats(0, 2),
)


@given(REQUESTS)
def test_a_request_comes_through_the_wire(request: Request) -> None:
    """As JSON and back it is the same value, half surrogates and all."""
    assert convert(json.loads(json.dumps(to_plain(request))), Request) == request


@given(COMPLETIONS)
def test_a_completion_comes_through_the_wire(completion: Completion) -> None:
    """As JSON and back it is the same value."""
    assert convert(json.loads(json.dumps(to_plain(completion))), Completion) == completion


REQUEST = Request(
    ("system",),
    (
        Message("user", (Text("Continue."),)),
        Message("assistant", (Text("I look."), ToolUse("1", "bash", {"command": "ls"}))),
        Message("user", (ToolResult("1", "a b", True),)),
    ),
    (ToolSpec("bash", "Run a command", {"type": "object"}),),
    "run",
)
COMPLETION = Completion((Text("Done."), ToolUse("2", "bash", {})), "tool_use", "a-model", Usage(1, 2, 3, 4))


def broken(whole: Any, path: tuple[str | int, ...], value: object) -> Any:
    """`whole` with the value at `path` replaced, or taken away if the new value is `...`."""
    copy = json.loads(json.dumps(whole))
    held = copy
    for step in path[:-1]:
        held = held[step]
    if value is ...:
        del held[path[-1]]
    else:
        held[path[-1]] = value
    return copy


@each_row(
    "path, values",
    [
        (("system",), [..., None, "system", [3], {"a": 1}]),
        (("messages",), [..., None, "x", {}, [3], ["x"], [None]]),
        (("messages", 0, "role"), [..., None, "system", [], 3]),
        (("messages", 0, "content"), [..., None, "Continue.", {}, ["x"], [3]]),
        (("messages", 0, "content", 0, "type"), [..., None, "image", [], {}]),
        (("messages", 0, "content", 0, "text"), [..., None, 3, ["x"]]),
        (("messages", 1, "content", 1, "input"), [..., None, "x", []]),
        (("messages", 1, "content", 1, "id"), [..., None, 1]),
        (("messages", 2, "content", 0, "content"), [..., None, ["x"], 1]),
        (("messages", 2, "content", 0, "is_error"), [None, "false", 0]),
        (("tools",), [..., None, "x", {}, [3], ["x"]]),
        (("tools", 0, "name"), [..., None, 3]),
        (("tools", 0, "input_schema"), [..., None, "x", []]),
        (("run",), [None, 3, []]),
    ],
)
def test_a_request_of_another_shape_is_a_value_error(path: tuple[str | int, ...], values: list[object]) -> None:
    """The door answers a stranger's request with a reason, whatever it sent."""
    whole = to_plain(REQUEST)
    assert convert(whole, Request) == REQUEST
    for value in values:
        with pytest.raises(ValueError, match=r"\w"):
            convert(broken(whole, path, value), Request)
