"""The summary that replaces the beginning of a conversation: by the model, or from the record of its calls. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice

from infra.cell.clip import clip
from infra.shared.conversation import END_TURN, MAX_TOKENS, Completion, Message, Text, ToolResult, ToolUse
from infra.shared.text import cut

SUMMARY_CHARS = 40_000
RECORD_LINES = 150
"""Of the mechanical summary: the last calls, each with the first line of its result."""
LINE_CHARS = 160
ATTEMPTS = 2

WHAT = (
    "Write down, as text and without any tool call, what is needed to continue: what was asked; what is done, "
    "with the commits; what is open, and the next step; what was learnt, also what did not work; which files and "
    "branches matter. Be exact with names, paths and numbers. At most two pages."
)
COMPACT = f"This conversation is too long: everything but its opening and its last steps is dropped. {WHAT}"
AGAIN = (
    "You were asked this before, and the reply {problem}. This is the last attempt: text only, no tool call, one page."
)
GO_ON = (
    "What stands above is your own summary: the conversation was too long, and its first steps are gone. Continue from "
    "there; read a file again to know what it holds now."
)
FROM_RECORD = (
    "There is no summary by the model. What it did, by the record, each call with the first line of its result:"
)


def asked_for(messages: Sequence[Message], words: str) -> tuple[Message, ...]:
    """The same conversation, with these words at its end."""
    *rest, last = messages
    if last.role == "user":
        return (*rest, last._replace(content=(*last.content, Text(words))))
    return (*rest, last, Message("user", (Text(words),)))


def problem_with(completion: Completion) -> str:
    """Why this reply is not a summary; nothing when it is one."""
    if any(isinstance(block, ToolUse) for block in completion.content):
        return "called for a tool"
    if completion.stop_reason == MAX_TOKENS:
        return "was cut at the limit of tokens for one reply"
    if not words_of(completion):
        return "was empty"
    return "" if completion.stop_reason == END_TURN else f"ended with {completion.stop_reason}"


def words_of(completion: Completion) -> str:
    text = "\n\n".join(block.text for block in completion.content if isinstance(block, Text)).strip()
    return clip(text, SUMMARY_CHARS)


def from_record(messages: Sequence[Message], before: str) -> str:
    """The calls of `messages` and the first lines of their results, after what an earlier summary said."""
    results = {
        block.tool_use_id: block for message in messages for block in message.content if isinstance(block, ToolResult)
    }
    lines = list(_lines(messages, results))
    left_out = max(0, len(lines) - RECORD_LINES)
    earlier = [f"({left_out} lines before these are left out)"] if left_out else []
    return clip("\n".join([*([before, ""] if before else []), FROM_RECORD, *earlier, *lines[left_out:]]), SUMMARY_CHARS)


def _lines(messages: Sequence[Message], results: dict[str, ToolResult]) -> Iterator[str]:
    for message in messages:
        for block in message.content if message.role == "assistant" else ():
            if isinstance(block, Text) and block.text.strip():
                yield f"- it said: {_first_line(block.text)}"
            elif isinstance(block, ToolUse):
                result = results.get(block.id)
                came = "no result" if result is None else _first_line(result.content)
                error = "error: " if result is not None and result.is_error else ""
                yield f"- {block.name} {_first_line(_given(block))} -> {error}{came}"


def _given(call: ToolUse) -> str:
    try:
        return json.dumps(call.input, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "…"


def _first_line(text: str) -> str:
    line = next(iter(text[: 4 * LINE_CHARS].strip().splitlines()), "")
    return cut(line, LINE_CHARS)


def last_steps(sizes: Sequence[int], first: int, room: int, most_steps: int) -> int:
    """How many of the last messages may stay: whole steps of two, `room` bytes of them, none of the opening."""
    kept = taken = 0
    pairs = zip(reversed(sizes[first:-1:2]), reversed(sizes[first + 1 :: 2]), strict=False)
    for pair in islice(pairs, most_steps):
        taken += sum(pair)
        if taken > room:
            break
        kept += 2
    return kept
