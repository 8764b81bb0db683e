"""How deeply a value from a model may be nested: code that walks it recurses, and Python limits recursion. Pure."""

from __future__ import annotations

from typing import Any

MAX_LEVELS = 64
"""Of the arguments of a tool call; their object is the first level."""


def is_too_deep(value: Any) -> bool:
    """Whether mappings and lists are nested over MAX_LEVELS deep. Does not recurse itself."""
    layer = [value]
    for _ in range(MAX_LEVELS + 1):
        layer = [one for one in layer if isinstance(one, dict | list)]
        if not layer:
            return False
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
    return True
