"""Whether the arguments of a call fit its schema: a flat object of strings, numbers and flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.shared.conversation import ToolSpec

_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
_SHOWN_CHARS = 200


def problem_with_input(tool: ToolSpec, given: Mapping[str, Any]) -> str | None:
    """Why `given` does not fit the tool's schema (a flat object of strings, numbers and flags); None when it does."""
    properties: Mapping[str, Mapping[str, Any]] = tool.input_schema["properties"]
    required = tool.input_schema["required"]
    usage = f"{tool.name} takes {', '.join(n if n in required else f'{n} (optional)' for n in properties)}"
    for name in required:
        if name not in given:
            return f"{tool.name}: argument {name} is missing; {usage}"
    for name, value in given.items():
        if name not in properties:
            return f"{tool.name}: unknown argument {name[:_SHOWN_CHARS]!r}; {usage}"
        expected = properties[name]["type"]
        if not isinstance(value, _TYPES[expected]) or (isinstance(value, bool) and expected != "boolean"):
            return f"{tool.name}: {name} is of type {type(value).__name__}; expected {expected}"
        if isinstance(value, str) and not _is_plain(value):
            return f"{tool.name}: {name} holds a lone surrogate, which no file and no command line can hold"
        least = properties[name].get("minimum")
        if least is not None and not value >= least:  # "not >=" also refuses NaN, which JSON readers let in
            return f"{tool.name}: {name} is {str(value)[:_SHOWN_CHARS]}; expected {least} or more"
    return None


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def schema(
    required: Mapping[str, Mapping[str, Any]], optional: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """A JSON Schema of a flat object that takes these arguments and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }
