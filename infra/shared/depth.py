"""How deep a value may be nested that comes from a model: whoever writes it down or looks through it goes down level
by level, and Python ends that at some hundreds. Pure."""

from __future__ import annotations

from typing import Any

MAX_LEVELS = 64
"""Of the arguments of one tool call, their object being the first."""


def is_too_deep(value: Any, most: int = MAX_LEVELS) -> bool:
    """Whether mappings and lists stand over `most` levels deep in each other. Itself it goes no deeper than one."""
    layer = [value]
    for _ in range(most + 1):
        layer = [one for one in layer if isinstance(one, dict | list)]
        if not layer:
            return False
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
    return True
