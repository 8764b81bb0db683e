"""A conversation that is kept within a budget of tokens.

Over the budget, or refused by the provider as too long, everything between the opening and the last steps becomes a
summary by the model; as often as needed, and seldom, because the provider caches what stays the same from the start. A
token is taken for three bytes until the provider has counted a request; from then on for as many bytes as that last
request had to a token."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from infra.cell.clip import clip
from infra.cell.doors import ModelFailure
from infra.cell.loop.record import Compacted
from infra.shared.conversation import END_TURN, Completion, Message, Request, Text, ToolUse, Value, images_of, of_kind
from infra.shared.paths import TRANSCRIPTS

KEPT_STEPS = 4
"""So many of the last steps, each a reply and its results, outlive a summary,"""
KEPT_SHARE = 0.2
"""unless they take more than this of the budget."""
OVERFLOW_SHARE = 0.9
"""Of what a provider once refused as too long, so much is the budget from then on."""
OVERFLOW = "context_overflow"
NO_MONEY = ("budget_exhausted", "exploration_exhausted")
FIRST_TOKENS_PER_BYTE = 1 / 3
"""Careful: English text has some 4 bytes to a token, code and JSON 3."""
LEAST_TOKENS_PER_BYTE, MOST_TOKENS_PER_BYTE = 1 / 16, 1.0
"""No token stands for less than a byte; a count outside of these is not believed."""
IMAGE_BYTES = 7500
"""An image counts as so many: 2,500 tokens, about what Claude and OpenAI's models make of a screenshot."""
SUMMARY_CHARS = 40_000
COMPACT = (
    "This conversation is too long: everything but its opening and its last steps is dropped. Write down, as text and "
    "without any tool call, what is needed to continue: what was asked; what is done, with the commits; what is open, "
    "and the next step; what was learnt, also what did not work; which files and branches matter. Be exact with names, "
    "paths and numbers. At most two pages."
)
GO_ON = (
    "What stands above is your own summary: the conversation was too long, and its first steps are gone. Continue from "
    "there; read a file again to know what it holds now."
)
LOST = f"There is no summary by the model. What was done stands in {TRANSCRIPTS}, in the newest file."


class Room(NamedTuple):
    """What a conversation may take; as it stands, all that the provider takes."""

    tokens: int = sys.maxsize
    remind: Callable[[], str] = str
    """What the model must know again after a summary."""


class Context:
    """Asks the model, with a conversation that fits."""

    def __init__(self, complete: Callable[[Request], Completion], opening: Request, room: Room) -> None:
        self._complete, self._request, self._remind = complete, opening, room.remind
        self._budget = room.tokens
        self._tokens_per_byte = FIRST_TOKENS_PER_BYTE
        self._before_messages = _json_bytes(opening._replace(messages=()))
        self._least = len(opening.messages)
        """How many messages there were when nothing could be left out."""

    def ask(self, messages: list[Message], record: Callable[[Compacted], None]) -> Completion:
        """The model's next reply. `record` is told what is cut, and puts it in the place of all behind the opening.
        Raises ModelFailure when that does not do, or there is no money left, and Interrupted."""
        if len(messages) > self._least and self._tokens(messages) > self._budget:
            self._compact(messages, record)
            if (tokens := self._tokens(messages)) > self._budget:
                sizes = f"{tokens} of {self._budget} tokens (limits.context_tokens)"
                raise ModelFailure(OVERFLOW, f"the opening of the conversation and its summary take {sizes}")
        try:
            completion = self._complete(self._with(messages))
        except ModelFailure as failure:
            if failure.type != OVERFLOW or len(messages) <= self._least:
                raise
            self._budget = min(self._budget, round(self._tokens(messages) * OVERFLOW_SHARE))
            self._compact(messages, record)  # the provider knows better than we do
            completion = self._complete(self._with(messages))
        used = completion.usage
        if counted := used.input_tokens + used.cache_write_tokens + used.cache_read_tokens:
            found = counted / (self._before_messages + sum(map(bytes_of, messages)))
            self._tokens_per_byte = min(MOST_TOKENS_PER_BYTE, max(LEAST_TOKENS_PER_BYTE, found))
        return completion

    def _tokens(self, messages: Sequence[Message]) -> int:
        return round((self._before_messages + sum(map(bytes_of, messages))) * self._tokens_per_byte)

    def _with(self, messages: Sequence[Message]) -> Request:
        return self._request._replace(messages=tuple(messages))

    def _compact(self, messages: list[Message], record: Callable[[Compacted], None]) -> None:
        opening = len(self._request.messages)
        kept = messages[opening:][-2 * KEPT_STEPS :]
        if (
            len(messages) == opening + len(kept)
            or sum(map(bytes_of, kept)) * self._tokens_per_byte > self._budget * KEPT_SHARE
        ):
            kept = []
        dropped = messages[: len(messages) - len(kept)]
        answer = self._summary(dropped)
        before = (block.text for block in of_kind(Text, dropped[opening].content))  # it may be an earlier summary
        words = clip(answer.text if answer else "\n\n".join((*before, LOST)), SUMMARY_CHARS)
        go_on = "\n\n".join(filter(None, (GO_ON, self._remind())))
        record(Compacted((Message("assistant", (Text(words),)), Message("user", (Text(go_on),)), *kept), answer))
        self._least = len(messages)

    def _summary(self, messages: Sequence[Message]) -> Completion | None:
        """By the model, of these, with one question at their end: so the provider has them in its cache."""
        *rest, last = messages
        try:
            answer = self._complete(self._with([*rest, last._replace(content=(*last.content, Text(COMPACT)))]))
        except ModelFailure as failure:
            if failure.type in NO_MONEY:
                raise
            return None
        calls = any(isinstance(block, ToolUse) for block in answer.content)
        return answer if answer.text and answer.stop_reason == END_TURN and not calls else None


def bytes_of(message: Message) -> int:
    """Of its JSON, as the model door gets it."""
    return _json_bytes(message) + IMAGE_BYTES * sum(len(images_of(block)) for block in message.content)


def _json_bytes(value: Value) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return 0  # what cannot be written as JSON is not sent, either: the client says so
