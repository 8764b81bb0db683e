"""What a tool is: its name and arguments, its time, whether it may be tried again, and what it can change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.protocol.operations import DENIED
from infra.shared.conversation import ToolSpec


class SideEffect(Enum):
    """What a tool can change at most."""

    READ = "read"
    """Nothing."""
    WRITE = "write"
    """The agent's own files."""
    EXECUTE = "execute"
    """Anything that a program with the agent's rights can."""
    AUTH = "auth"
    """Which version is active, or what main is."""


@dataclass
class Position:
    """Where in which run an act is made, as records call it."""

    run: str = ""
    step: int = 0


class ToolError(Exception):
    """A call that could not be done; the text is for the model, and so is the hint at what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


REFUSED = "refused"
"""The name of a call that stands for an operation which is none: it is answered with what is wrong with it."""
BRIEFLY = (0.2, 0.8)


class Tool(NamedTuple):
    """One tool in the registry."""

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], float], ToolResult]
    """Gets arguments that fit the schema, and the seconds that it may take. Raises ToolError, OSError, GitError."""
    timeout_ms: int
    """The dispatcher ends it after that."""
    side_effect: SideEffect
    retry_pauses: tuple[float, ...] = ()
    """Seconds before each further attempt; only at what failed for a passing reason and left nothing behind."""

    @property
    def name(self) -> str:
        return self.spec.name


class Verdict(NamedTuple):
    """What the policy says of a call."""

    allowed: bool
    words: str = ""
    """For the model, when it is not."""
    status: str = DENIED
    """Of the result, when it is not."""
    flags: tuple[str, ...] = ()


Gate = Callable[[Tool, Mapping[str, Any]], Verdict]
"""Asked about each call whose arguments fit, before anything is done."""
Dispatch = Callable[[ToolCall], ToolResult]
"""Carries out one call. Raises nothing but Interrupted."""
