"""How long a conversation is: bytes of its JSON as the model door gets it, and tokens by one rule. Pure.

A token is taken for three bytes until the provider has counted a request; from then on for as many bytes as that last
request had to a token."""

from __future__ import annotations

import json

from infra.shared.conversation import Block, Message, Request, Usage, Value, images_of, to_plain, without_images

FIRST_TOKENS_PER_BYTE = 1 / 3
"""Careful: English text has some 4 bytes to a token, code and JSON 3."""
LEAST_TOKENS_PER_BYTE, MOST_TOKENS_PER_BYTE = 1 / 16, 1.0
"""No token stands for less than a byte; a count outside of these is not believed."""

IMAGE_BYTES = 7500
"""An image counts as so many: 2,500 tokens, about what Claude and OpenAI's models make of a screenshot."""


def bytes_of(message: Message) -> int:
    return len(message.role) + sum(bytes_of_block(block) for block in message.content)


def bytes_of_block(block: Block) -> int:
    images = images_of(block)
    return len(images) * IMAGE_BYTES + (_json_bytes(without_images(block)) if images else _json_bytes(block))


def bytes_before_messages(request: Request) -> int:
    """Of the system texts and the tools."""
    return _json_bytes(request._replace(messages=()))


def tokens_per_byte(sent_bytes: int, usage: Usage, before: float) -> float:
    """By what the provider counted for a request of `sent_bytes`; `before` when it counted nothing."""
    counted = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
    if counted <= 0:
        return before
    return min(MOST_TOKENS_PER_BYTE, max(LEAST_TOKENS_PER_BYTE, counted / sent_bytes))


def _json_bytes(value: Value) -> int:
    try:
        return len(json.dumps(to_plain(value), ensure_ascii=False).encode(errors="replace"))
    except (TypeError, ValueError, RecursionError):
        return 0  # what cannot be written as JSON is not sent, either: the client says so
