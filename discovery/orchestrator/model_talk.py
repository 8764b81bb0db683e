"""A conversation with a model, kept within a size. Pure.

What was said stays as it was for as long as it can, because a provider's cache knows it by its beginning: when the
conversation is over the limit, old results are shortened until it is well below, all at once."""

from __future__ import annotations

from typing import NamedTuple

from door_client import Message

ROOM = 0.6
"""Of the limit, what remains after shortening."""
KEPT_TURNS = 2
"""The last results are never shortened: the model is about to read them."""
MOST_CHARS = 240_000
"""Of a conversation; some 60,000 tokens."""
LEAST_CHARS = 20_000


class Turn(NamedTuple):
    role: str
    """`user` or `assistant`."""
    text: str
    short: str = ""
    """What stands for it once it is old; empty: nothing shorter."""


Talk = tuple[Turn, ...]


def size_of(talk: Talk) -> int:
    """In characters."""
    return sum(len(turn.text) for turn in talk)


def within(talk: Talk, limit: int) -> Talk:
    """`talk`, or when it is longer than `limit` characters the same with old results shortened, and if that is not
    enough without the oldest exchanges. The first turn and the last ones stay."""
    if size_of(talk) <= limit:
        return talk
    aim, turns = int(limit * ROOM), list(talk)
    size = size_of(talk)
    for place, turn in enumerate(turns[:-KEPT_TURNS]):
        if size <= aim:
            break
        if turn.short and len(turn.short) < len(turn.text):
            size -= len(turn.text) - len(turn.short)
            turns[place] = Turn(turn.role, turn.short)
    return tuple(turns) if size <= limit else _without_oldest(turns, aim)


def _without_oldest(turns: list[Turn], aim: int) -> Talk:
    """The first turn, a word on what is missing, and the last exchanges. Roles still take turns."""
    first, rest = turns[0], turns[1:]
    dropped = 0
    while len(rest) > KEPT_TURNS and len(first.text) + sum(len(turn.text) for turn in rest) > aim:
        gone = 2 if len(rest) > KEPT_TURNS + 1 and rest[0].role == "assistant" else 1
        rest = rest[gone:]
        dropped += gone
    if not dropped:
        return (first, *rest)
    word = f"[{dropped} earlier messages are left out here.]"
    if rest and rest[0].role == first.role:  # roles take turns: one message instead of two
        return (Turn(first.role, f"{first.text}\n\n{word}\n\n{rest[0].text}"), *rest[1:])
    return (Turn(first.role, f"{first.text}\n\n{word}"), *rest)


def messages_of(talk: Talk) -> list[Message]:
    """As the door takes them."""
    return [{"role": turn.role, "content": [{"type": "text", "text": turn.text}]} for turn in talk]
