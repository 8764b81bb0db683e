"""A conversation as JSON bytes. A whole one is sent with each step, so how long this takes is most of what a call
costs here; msgspec writes it some ten times faster than `json`."""

from __future__ import annotations

from typing import Any

import msgspec


def encoded(value: Any) -> bytes:
    """What was read from JSON, as the wire carries it: UTF-8, without spaces. Raises UnicodeEncodeError for half a
    character, which nothing that was read strictly holds."""
    return msgspec.json.encode(value)


def canonical(value: Any) -> bytes:
    """The same for equal values, whatever the order of their keys."""
    return msgspec.json.encode(value, order="sorted") + b"\n"
