"""The one place where a call of the model is carried out.

A call that fails (no such tool, wrong arguments, the policy's no, a tool that failed or has a bug) gets a
result with `is_error`, in words that say what to do instead; no exception but the end of the process comes out."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from infra.cell.loop.arguments import problem_with_input
from infra.cell.loop.registry import REFUSED, Gate, Reply, Tool, ToolError, Verdict
from infra.shared.conversation import ToolSpec, ToolUse
from infra.shared.repository.git import GitError

NAMED_CHARS = 200
_PASSING = {errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ENFILE, errno.EMFILE, errno.ENOMEM}
"""Errors of the machine that come and go."""


class Toolbox:
    """The tools by name, and their dispatcher."""

    def __init__(
        self,
        tools: Iterable[Tool],
        gate: Gate | None = None,
        on_bug: Callable[[Exception], None] = lambda error: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Without a `gate`, everything may be done. `on_bug` gets exceptions that no tool should raise; the model is
        told as well."""
        self._tools = {tool.name: tool for tool in tools}
        self._gate = gate
        self._on_bug = on_bug
        self._pause = pause

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def call(self, call: ToolUse, gated: bool = True) -> Reply:
        """Without `gated`, for calls that are not the model's, no policy is asked."""
        try:
            return self._call(call, self._gate if gated else None)
        except Exception as error:  # the loop must go on, and the model may mend what is broken here
            self._on_bug(error)
            name = call.name[:NAMED_CHARS]
            words = f"{name}: a bug of this version: {type(error).__name__}: {error}; logs/errors.log has the rest"
            return Reply(words, is_error=True, error_code="internal")

    def _call(self, call: ToolUse, gate: Gate | None) -> Reply:
        tool = self._tools.get(call.name)
        if tool is None and call.name == REFUSED and {"message", "hint"} <= call.input.keys():
            words, hint = str(call.input["message"]), str(call.input["hint"])
            return Reply(words, is_error=True, error_code="invalid_arguments", hint=hint)
        if tool is None:
            words = f"no such tool: {call.name[:NAMED_CHARS]!r}; the tools are {', '.join(self._tools)}"
            return Reply(words, is_error=True, error_code="unknown_tool")
        problem = problem_with_input(tool.spec, call.input)
        if problem:
            return Reply(problem, is_error=True, error_code="invalid_arguments")
        verdict = gate(tool, call.input) if gate else Verdict(True)
        if not verdict.allowed:
            words = f"{tool.name}: {verdict.words}"
            return Reply(words, is_error=True, error_code=verdict.error_code, policy_flags=verdict.flags)
        return self._run(tool, call.input)._replace(policy_flags=verdict.flags)

    def _run(self, tool: Tool, given: Mapping[str, Any]) -> Reply:
        pauses = iter(tool.retry_pauses)
        while True:
            try:
                return tool.run(given, tool.timeout_ms / 1000)
            except (ToolError, OSError, GitError) as error:
                wait = next(pauses, None) if is_passing(error) else None
                if wait is None:
                    hint = error.hint if isinstance(error, ToolError) else ""
                    return Reply(f"{tool.name}: {error}", is_error=True, error_code=code_of(error), hint=hint)
            self._pause(wait)


def is_passing(error: Exception) -> bool:
    """The same might do in a moment."""
    if isinstance(error, GitError):
        return error.status is not None and not error.is_refusal
    return isinstance(error, OSError) and error.errno in _PASSING


def code_of(error: Exception) -> str:
    match error:
        case ToolError():
            return "refused"
        case GitError(status=None):
            return "timeout"
        case GitError():
            return "git_error"
    return "os_error"
