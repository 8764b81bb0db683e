"""A tool is a Struct of arguments and a function; the toolbox is the one place where a call of a model is carried out.

A call that fails (no such tool, wrong arguments, the policy's no, a tool that failed, hangs or has a bug) gets a result
that is an error, in words that say what to do instead; no exception but the end of the process comes out."""

from __future__ import annotations

import errno
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import msgspec

from infra.cell.actions import DENIED, ERROR_TYPES, FAILED, POLICY, UNAVAILABLE, ToolCall, ToolResult
from infra.cell.doors import Refused
from infra.cell.interruption import Interrupted
from infra.shared.conversation import TASK, ToolSpec
from infra.shared.policy import Effect
from infra.shared.repository.git import GitError

T = TypeVar("T")
NAMED_CHARS = 200
REFUSED = "refused"
"""The name of a call that stands for an operation which is none: it is answered with what is wrong with it."""
BRIEFLY = (0.2, 0.8)
_PASSING = {errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ENFILE, errno.EMFILE, errno.ENOMEM}
"""Errors of the machine that come and go."""


@dataclass
class Position:
    """Where in which run an act is made, as records call it."""

    run: str = ""
    step: int = 0
    label: str = TASK
    """What a call of a model is for, as money is counted (`conversation.LABELS`)."""


class ToolError(Exception):
    """A call that could not be done; the text is for the model, and so is the hint at what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Args(msgspec.Struct, forbid_unknown_fields=True):
    """What a tool takes. The docstring of a subclass is what the model reads of the tool."""


class Tool(NamedTuple):
    """One tool: what a call holds, and what is done with it."""

    name: str
    args: type[Args]
    act: Callable[[Any], ToolResult]
    """Raises ToolError, OSError, GitError."""
    timeout_ms: int
    """The dispatcher ends it after that."""
    side_effect_class: Effect
    retry_profile: tuple[float, ...] = ()
    """Seconds before each further attempt; only at what failed for a passing reason and left nothing behind."""

    @property
    def args_schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        return schema_of(self.args)

    @property
    def spec(self) -> ToolSpec:
        """As a model is told of it."""
        return ToolSpec(self.name, " ".join((self.args.__doc__ or "").split()), self.args_schema)


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


class Toolbox:
    """The tools by name, and their dispatcher."""

    def __init__(
        self,
        tools: Iterable[Tool],
        gate: Gate | None = None,
        on_bug: Callable[[BaseException], None] = lambda error: None,
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

    def call(self, call: ToolCall) -> ToolResult:
        """Raises Interrupted, KeyboardInterrupt and nothing else."""
        try:
            return self._call(call)
        except (Interrupted, KeyboardInterrupt):
            raise
        except BaseException as error:  # the loop must go on, and the model may mend what is broken here
            self._on_bug(error)
            name = call.name[:NAMED_CHARS]
            words = f"{name}: a bug of this version: {type(error).__name__}: {error}; logs/errors.log has the rest"
            return ToolResult.err("internal", words)

    def _call(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None and call.name == REFUSED and {"message", "hint"} <= call.args.keys():
            return ToolResult.err("invalid_arguments", str(call.args["message"]), str(call.args["hint"]))
        if tool is None:
            words = f"no such tool: {call.name[:NAMED_CHARS]!r}; the tools are {', '.join(self._tools)}"
            return ToolResult.err("unknown_tool", words)
        given = {name: value for name, value in call.args.items() if value is not None}  # as some models leave out
        try:
            args = fitting(tool.args, given)
        except ValueError as error:
            takes = ", ".join(tool.args.__struct_fields__) or "nothing"
            return ToolResult.err("invalid_arguments", f"{tool.name}: {error}; it takes {takes}")
        verdict = self._gate(tool, given) if self._gate else Verdict(True)
        if not verdict.allowed:
            refused = ToolResult.err(verdict.status, f"{tool.name}: {verdict.words}")
            return refused._replace(policy_flags=verdict.flags)
        return self._run(tool, args)._replace(policy_flags=verdict.flags)

    def _run(self, tool: Tool, args: Args) -> ToolResult:
        pauses, seconds = iter(tool.retry_profile), tool.timeout_ms / 1000
        while True:
            try:
                return within(seconds, lambda: tool.act(args))
            except OutOfTime:
                words = f"{tool.name}: it had not ended after {seconds:g} s and was broken off"
                return ToolResult.err("timeout", words, "Look how far it came before you do it again")
            except ToolError as error:
                return ToolResult.err("refused", f"{tool.name}: {error}", error.hint)
            except Refused as no:  # the types of a door's errors are those of the loop; one that is away has others
                code = no.failure.type if no.failure.type in ERROR_TYPES else UNAVAILABLE
                status = DENIED if code == POLICY else FAILED
                return ToolResult(f"{tool.name}: {no}", status, code, no.failure.retriable, no.failure.hint)
            except GitError as error:
                failed = ToolResult.err("timeout" if error.status is None else "git_error", f"{tool.name}: {error}")
                may_pass = error.status is not None and not error.is_refusal
            except OSError as error:
                failed, may_pass = ToolResult.err("os_error", f"{tool.name}: {error}"), error.errno in _PASSING
            wait = next(pauses, None) if may_pass else None
            if wait is None:
                return failed
            self._pause(wait)


def fitting(args: type[Args], given: Mapping[str, Any]) -> Args:
    """`given` as such arguments. Raises ValueError, which says what was found and what was expected."""
    try:
        for value in given.values():
            str(value).encode()
        return msgspec.convert(given, args)
    except UnicodeEncodeError:
        raise ValueError("a text holds a lone surrogate, which no file and no command line can hold") from None
    except msgspec.ValidationError as error:
        words, _, name = str(error).partition(" - at `$.")
        words = words[: 2 * NAMED_CHARS]
        raise ValueError(f"{name.rstrip('`')}: {words[:1].lower()}{words[1:]}" if name else words) from None


@functools.cache
def schema_of(args: type[Args]) -> dict[str, Any]:
    """JSON Schema of one flat object: types and descriptions alone, as each request pays for all. What else must hold
    is said when it does not."""
    _, found = msgspec.json.schema_components([args])
    whole = found[args.__name__]
    plain = {}
    for name, each in whole["properties"].items():
        merged = {**each.get("anyOf", [{}])[0], **each}
        plain[name] = {key: merged[key] for key in ("type", "description") if key in merged}
    return {"type": "object", "properties": plain, "required": whole["required"]}


AGAIN_SECONDS = 5.0
"""An act that goes on in spite of its alarm is told again."""


class OutOfTime(BaseException):
    """The time of an act is over. No `except Exception` of a tool may take it for trouble."""


def within(seconds: float, act: Callable[[], T]) -> T:
    """What `act` gives, in the main thread, where the kernel's alarm ends a loop without end and a wait for what never
    comes; native code that never returns is ended with the runner, by the watcher. An act within another has the time
    of that one. Raises OutOfTime, and what `act` raises."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) is _ring:
        return act()
    handler = signal.signal(signal.SIGALRM, _ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
            return act()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:  # once more, as the alarm may have come behind the act
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)


def _ring(number: int, frame: FrameType | None) -> None:
    raise OutOfTime
