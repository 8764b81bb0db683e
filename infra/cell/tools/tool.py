"""The one place where a call of the model is carried out.

A call that fails (no such tool, wrong arguments, the policy's no, a tool that failed, hangs or has a bug) gets a result
that is an error, in words that say what to do instead; no exception but the end of the process comes out."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.interruption import Interrupted
from infra.cell.protocol.operations import TIMEOUT
from infra.cell.tools.arguments import problem_with_input
from infra.cell.tools.deadline import OutOfTime, within
from infra.cell.tools.registry import REFUSED, Gate, Tool, ToolError, Verdict
from infra.shared.conversation import ToolSpec
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
        on_bug: Callable[[BaseException], None] = lambda error: None,
        pause: Callable[[float], None] = time.sleep,
        on_timeout: Callable[[float], None] = lambda began: None,
    ) -> None:
        """Without a `gate`, everything may be done. `on_bug` gets exceptions that no tool should raise; the model is
        told as well. `on_timeout` ends what an act left that had to be ended; it began so long after the machine."""
        self._tools = {tool.name: tool for tool in tools}
        self._gate = gate
        self._on_bug = on_bug
        self._pause = pause
        self._on_timeout = on_timeout

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def call(self, call: ToolCall, gated: bool = True) -> ToolResult:
        """Raises Interrupted, KeyboardInterrupt and nothing else. Without `gated`, for calls that are not the model's,
        no policy is asked."""
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            result = self._call(call, self._gate if gated else None)
            if result.error_code == TIMEOUT:
                self._on_timeout(began)
        except (Interrupted, KeyboardInterrupt):
            raise
        except BaseException as error:  # the loop must go on, and the model may mend what is broken here
            self._on_bug(error)
            name = call.name[:NAMED_CHARS]
            words = f"{name}: a bug of this version: {type(error).__name__}: {error}; logs/errors.log has the rest"
            return ToolResult.err("internal", words)
        return result

    def _call(self, call: ToolCall, gate: Gate | None) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None and call.name == REFUSED and {"message", "hint"} <= call.args.keys():
            return ToolResult.err("invalid_arguments", str(call.args["message"]), str(call.args["hint"]))
        if tool is None:
            words = f"no such tool: {call.name[:NAMED_CHARS]!r}; the tools are {', '.join(self._tools)}"
            return ToolResult.err("unknown_tool", words)
        problem = problem_with_input(tool.spec, call.args)
        if problem:
            return ToolResult.err("invalid_arguments", problem)
        verdict = gate(tool, call.args) if gate else Verdict(True)
        if not verdict.allowed:
            refused = ToolResult.err(verdict.status, f"{tool.name}: {verdict.words}")
            return refused._replace(policy_flags=verdict.flags)
        return self._run(tool, call.args)._replace(policy_flags=verdict.flags)

    def _run(self, tool: Tool, given: Mapping[str, Any]) -> ToolResult:
        pauses, seconds = iter(tool.retry_pauses), tool.timeout_ms / 1000
        while True:
            try:
                return within(seconds, lambda: tool.run(given, seconds))
            except OutOfTime:
                words = f"{tool.name}: it had not ended after {seconds:g} s and was broken off"
                return ToolResult.err("timeout", words, "Look how far it came before you do it again")
            except (ToolError, OSError, GitError) as error:
                wait = next(pauses, None) if is_passing(error) else None
                if wait is None:
                    hint = error.hint if isinstance(error, ToolError) else ""
                    return ToolResult.err(detail_of(error), f"{tool.name}: {error}", hint)
            self._pause(wait)


def is_passing(error: Exception) -> bool:
    """The same might do in a moment."""
    if isinstance(error, GitError):
        return error.status is not None and not error.is_refusal
    return isinstance(error, OSError) and error.errno in _PASSING


def detail_of(error: Exception) -> str:
    match error:
        case ToolError():
            return "refused"
        case GitError(status=None):
            return "timeout"
        case GitError():
            return "git_error"
    return "os_error"
