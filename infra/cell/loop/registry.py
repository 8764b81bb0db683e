"""What an act of the model is: its name and arguments, how long it may take, whether it may be tried again, and what
kind of thing it does to the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

from infra.shared.conversation import Tool, ToolUse


class SideEffect(Enum):
    """What an act can change at most."""

    READ = "read"
    """Nothing."""
    WRITE = "write"
    """The agent's own files."""
    EXECUTE = "execute"
    """Whatever a program with the agent's rights can."""
    AUTH = "auth"
    """Who leads, or what main is."""


class Retry(NamedTuple):
    """What is tried again, after which pauses; only what failed for a passing reason and left nothing behind."""

    pauses_seconds: tuple[float, ...] = ()


NEVER, BRIEFLY = Retry(), Retry((0.2, 0.8))


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
    policy_flags: tuple[str, ...] = ()
    """What the policy had to say of the call."""


class ToolTrouble(Exception):
    """A call that could not be done; the text is for the model."""


class Entry(NamedTuple):
    """One act in the registry."""

    tool: Tool
    act: Callable[[Mapping[str, Any], float], Reply]
    """Gets arguments that fit the schema, and the seconds that it may take. Raises ToolTrouble, OSError, GitError."""
    timeout_ms: int
    side_effect_class: SideEffect
    retry_profile: Retry = NEVER

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def args_schema(self) -> dict[str, Any]:
        return self.tool.input_schema


class Verdict(NamedTuple):
    """What the policy says of a call."""

    allowed: bool
    words: str = ""
    """For the model, when it is not."""
    error_code: str = ""
    flags: tuple[str, ...] = ()


Gate = Callable[[Entry, Mapping[str, Any]], Verdict]
"""Asked about each call whose arguments fit, before anything is done."""


def no_policy(entry: Entry, given: Mapping[str, Any]) -> Verdict:
    """Everything that there is an act for may be done."""
    return Verdict(True)


class Dispatcher(Protocol):
    """Carries out the calls of a model."""

    def call(self, call: ToolUse) -> Reply:
        """Raises nothing but Interrupted."""
        ...
