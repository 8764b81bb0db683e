"""Conversations out of hypothesis: everything that the contract allows."""

from __future__ import annotations

from hypothesis import strategies as st

from infra.shared.conversation import Message, Request, Text, ToolResult, ToolSpec, ToolUse, Usage

words = st.text(max_size=40)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, json_values, max_size=4)
texts = st.builds(Text, words)
tool_uses = st.builds(ToolUse, words, words, objects)
tool_results = st.builds(ToolResult, words, words, st.booleans())
blocks = texts | tool_uses | tool_results
messages = st.builds(
    Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=4).map(tuple)
)  # fmt: skip
requests = st.builds(
    Request,
    st.lists(words, max_size=3).map(tuple),
    st.lists(messages, max_size=5).map(tuple),
    st.lists(st.builds(ToolSpec, words, words, objects), max_size=3).map(tuple),
    words,
)
counts = st.integers(0, 10**7)
usages = st.builds(Usage, counts, counts, counts, counts)
