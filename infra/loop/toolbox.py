"""The one place where a tool call of the model becomes an act and its result.

Whatever is wrong with a call (no such tool, wrong arguments, an act that failed) is a result with `is_error`, in
words that say what to do instead; only a bug of ours is an exception."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from infra.contract.conversation import Tool, ToolUse
from infra.repository.git import GitError


class Reply(NamedTuple):
    """What a tool call came to."""

    content: str
    is_error: bool = False
    hands_over: bool = False
    """The act asked the watcher for another runner: this one has nothing more to do."""
    error_code: str = ""
    """What kind of error it is; empty for none."""
    artifacts: tuple[str, ...] = ()
    """Files that it left, by their paths from the checkout or absolute ones."""


class ToolTrouble(Exception):
    """A call that could not be done; the text is for the model."""


class Entry(NamedTuple):
    tool: Tool
    act: Callable[[Mapping[str, Any]], Reply]
    """Gets arguments that fit the schema. Raises ToolTrouble, OSError, GitError."""


class Toolbox:
    """Tools by name."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.tool.name: entry for entry in entries}

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(entry.tool for entry in self._entries.values())

    def call(self, call: ToolUse) -> Reply:
        entry = self._entries.get(call.name)
        if entry is None:
            words = f"there is no tool {call.name!r}; the tools are {', '.join(self._entries)}"
            return Reply(words, is_error=True, error_code="unknown_tool")
        problem = problem_with_input(entry.tool, call.input)
        if problem:
            return Reply(problem, is_error=True, error_code="invalid_arguments")
        try:
            return entry.act(call.input)
        except (ToolTrouble, OSError, GitError) as error:
            return Reply(f"{call.name}: {error}", is_error=True, error_code=_CODES.get(type(error), "os_error"))


_CODES = {ToolTrouble: "refused", GitError: "git_error"}
_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}


def problem_with_input(tool: Tool, given: Mapping[str, Any]) -> str | None:
    """Why `given` does not fit the tool's schema (a flat object of strings and numbers); None when it does."""
    properties: Mapping[str, Mapping[str, Any]] = tool.input_schema["properties"]
    required = tool.input_schema["required"]
    usage = f"{tool.name} takes {', '.join(n if n in required else f'{n} (optional)' for n in properties)}"
    for name in required:
        if name not in given:
            return f"{tool.name}: argument {name} is missing; {usage}"
    for name, value in given.items():
        if name not in properties:
            return f"{tool.name}: unknown argument {name!r}; {usage}"
        expected = properties[name]["type"]
        if not isinstance(value, _TYPES[expected]) or isinstance(value, bool):
            return f"{tool.name}: {name} is of type {type(value).__name__}; expected {expected}"
        if isinstance(value, str) and not _is_plain(value):
            return f"{tool.name}: {name} holds a lone surrogate, which no file and no command line can hold"
        least = properties[name].get("minimum")
        if least is not None and not value >= least:  # "not >=" also refuses NaN, which JSON readers let in
            return f"{tool.name}: {name} is {value}; expected {least} or more"
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
