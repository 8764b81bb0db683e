"""The one place where a call of the model becomes an act and its result.

Whatever is wrong with a call (no such tool, wrong arguments, the policy's no, an act that failed or has a bug) is a
result with `is_error`, in words that say what to do instead; no exception but the end of the process comes out."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from infra.cell.loop.arguments import problem_with_input
from infra.cell.loop.registry import Entry, Gate, Reply, ToolTrouble, no_policy
from infra.shared.conversation import Tool, ToolUse
from infra.shared.repository.git import GitError

NAMED_CHARS = 200
_PASSING = {errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ENFILE, errno.EMFILE, errno.ENOMEM}
"""Errors of the machine that come and go."""


def unheard(error: Exception) -> None:
    """For callers that keep no log."""


class Toolbox:
    """The registry of acts by name, and their dispatcher."""

    def __init__(
        self,
        entries: Iterable[Entry],
        gate: Gate = no_policy,
        on_bug: Callable[[Exception], None] = unheard,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`on_bug` hears of exceptions that no act should raise; the model is told as well."""
        self._entries = {entry.name: entry for entry in entries}
        self._gate = gate
        self._on_bug = on_bug
        self._pause = pause

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(entry.tool for entry in self._entries.values())

    def call(self, call: ToolUse, gated: bool = True) -> Reply:
        """Without `gated`, for calls that are not the model's, no policy is asked."""
        try:
            return self._call(call, self._gate if gated else no_policy)
        except Exception as error:  # the loop must go on, and the model may mend what is broken here
            self._on_bug(error)
            name = call.name[:NAMED_CHARS]
            words = f"{name}: a bug of this version: {type(error).__name__}: {error}; logs/errors.log has the rest"
            return Reply(words, is_error=True, error_code="internal")

    def _call(self, call: ToolUse, gate: Gate) -> Reply:
        entry = self._entries.get(call.name)
        if entry is None:
            words = f"there is no tool {call.name[:NAMED_CHARS]!r}; the tools are {', '.join(self._entries)}"
            return Reply(words, is_error=True, error_code="unknown_tool")
        problem = problem_with_input(entry.tool, call.input)
        if problem:
            return Reply(problem, is_error=True, error_code="invalid_arguments")
        verdict = gate(entry, call.input)
        if not verdict.allowed:
            words = f"{entry.name}: {verdict.words}"
            return Reply(words, is_error=True, error_code=verdict.error_code, policy_flags=verdict.flags)
        return self._act(entry, call.input)._replace(policy_flags=verdict.flags)

    def _act(self, entry: Entry, given: Mapping[str, Any]) -> Reply:
        pauses = iter(entry.retry_profile.pauses_seconds)
        while True:
            try:
                return entry.act(given, entry.timeout_ms / 1000)
            except (ToolTrouble, OSError, GitError) as error:
                wait = next(pauses, None) if is_passing(error) else None
                if wait is None:
                    return Reply(f"{entry.name}: {error}", is_error=True, error_code=code_of(error))
            self._pause(wait)


def is_passing(error: Exception) -> bool:
    """The same might do in a moment."""
    if isinstance(error, GitError):
        return error.status is not None and not error.is_refusal
    return isinstance(error, OSError) and error.errno in _PASSING


def code_of(error: Exception) -> str:
    match error:
        case ToolTrouble():
            return "refused"
        case GitError(status=None):
            return "timeout"
        case GitError():
            return "git_error"
    return "os_error"
