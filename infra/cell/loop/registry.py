"""What a tool is: its name and arguments, its time, whether it may be tried again, and what it can change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from infra.shared.conversation import ToolSpec, ToolUse


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


class Reply(NamedTuple):
    """The result of a tool call."""

    content: str
    is_error: bool = False
    hands_over: bool = False
    """The tool asked the watcher for another runner: this one has nothing more to do."""
    error_code: str = ""
    """What kind of error it is; empty for none."""
    artifacts: tuple[str, ...] = ()
    """Files that it left, by their paths from the checkout or absolute ones."""
    policy_flags: tuple[str, ...] = ()
    """What the policy had to say of the call."""
    hint: str = ""
    """What to do next, when it is an error."""
    facts: Mapping[str, Any] = MappingProxyType({})
    """What an event of the protocol says beside its text: path, bytes, lines, exit, stderr, …"""

    @property
    def shown(self) -> str:
        """The content and the hint."""
        return f"{self.content}. {self.hint}" if self.hint else self.content


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
    run: Callable[[Mapping[str, Any], float], Reply]
    """Gets arguments that fit the schema, and the seconds that it may take. Raises ToolError, OSError, GitError."""
    timeout_ms: int
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
    error_code: str = ""
    flags: tuple[str, ...] = ()


Gate = Callable[[Tool, Mapping[str, Any]], Verdict]
"""Asked about each call whose arguments fit, before anything is done."""


class Dispatcher(Protocol):
    """Carries out the calls of a model."""

    def call(self, call: ToolUse) -> Reply:
        """Raises nothing but Interrupted."""
        ...
