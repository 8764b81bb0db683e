"""What a model wants done, and what came of it, as values: the same for calls of tools and for operations in text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from infra.cell.run_states import StopReason

OK, FAILED, DENIED, AWAITING, NOT_RUN = "ok", "failed", "denied", "awaiting_approval", "not_run"
VALIDATION, POLICY, TIMEOUT = "validation_error", "policy_denied", "tool_timeout"
UNAVAILABLE, EXECUTION = "tool_unavailable", "execution_error"
NOTE: Final = "note"
"""The tool; and the fact of its result that becomes `metadata.details` of its event."""
ERROR_TYPES: Final = (VALIDATION, POLICY, TIMEOUT, UNAVAILABLE, EXECUTION)


class ToolCall(NamedTuple):
    """One act that the model asks for."""

    id: str
    name: str
    args: Mapping[str, Any]


class ToolCalls(NamedTuple):
    """Acts, to be carried out in order."""

    calls: tuple[ToolCall, ...]
    text: str = ""
    """What the model says beside them."""


class Respond(NamedTuple):
    """Words without an act."""

    text: str
    reason: StopReason = StopReason.COMPLETED
    """Why the run ends with them, unless there is advice."""
    advice: str = ""
    """The reply is not taken: the model is told this, and the run continues."""


AssistantAction = ToolCalls | Respond


class ErrorKind(NamedTuple):
    """What all errors of one kind have in common."""

    code: str
    """One of ERROR_TYPES, which a caller knows."""
    retriable: bool
    """The same may do later."""
    hint: str
    """What to do next, where the tool does not say."""
    status: str = FAILED


ERRORS: Final[Mapping[str, ErrorKind]] = {
    "invalid_arguments": ErrorKind(VALIDATION, True, "write it in the form that is asked for"),
    "unknown_tool": ErrorKind(VALIDATION, True, "use one of the tools that there are"),
    "denied": ErrorKind(POLICY, False, "do something else, or say in your report why it is needed", DENIED),
    "awaiting_approval": ErrorKind(
        POLICY, True, "do other work, or end with your report; the PM's answer starts you again", AWAITING
    ),
    "timeout": ErrorKind(TIMEOUT, True, "give it less to do, or more time"),
    "git_error": ErrorKind(UNAVAILABLE, True, "try it once more; if it fails again, say so in your report"),
    "unavailable": ErrorKind(UNAVAILABLE, True, "try it again later, or do without and say so in your report"),
    "not_run": ErrorKind(UNAVAILABLE, True, "ask for it again if it is still to be done", NOT_RUN),
    "refused": ErrorKind(EXECUTION, True, "look at what is there, then try another way"),
    "os_error": ErrorKind(EXECUTION, True, "look at what is there, then try another way"),
    "internal": ErrorKind(EXECUTION, False, "do it another way; logs/errors.log has the cause"),
    "cut_short": ErrorKind(EXECUTION, True, "look how far it came before you do it again"),
}
"""By what went wrong, in finer words than the code."""
_HINTS: Final = frozenset(kind.hint for kind in ERRORS.values())


class ToolResult(NamedTuple):
    """What came of a call."""

    payload: str
    """For the model: the result, or what went wrong."""
    status: str = OK
    """OK, or why not: FAILED, DENIED, AWAITING, NOT_RUN."""
    error_code: str = ""
    """One of ERROR_TYPES unless it is ok."""
    retriable: bool = False
    hint: str = ""
    """What to do next."""
    artifacts: tuple[str, ...] = ()
    """Files that it left, by their paths from the checkout or absolute ones."""
    policy_flags: tuple[str, ...] = ()
    """What the policy had to say of the call."""
    facts: Mapping[str, Any] = MappingProxyType({})
    """What an event of the protocol says beside its text: path, bytes, lines, exit, stderr, …"""
    hands_over: bool = False
    """The tool asked the watcher for another runner: this one has nothing more to do."""

    @classmethod
    def err(cls, what: str, payload: str, hint: str = "") -> ToolResult:
        """Of a call that was not carried out, or not to its end."""
        kind = ERRORS[what]
        return cls(payload, kind.status, kind.code, kind.retriable, hint or kind.hint)

    @property
    def ok(self) -> bool:
        return self.status == OK

    @property
    def shown(self) -> str:
        """As a model that has tools reads it: with the hint, where it says more than any error of the kind, and what
        else is known behind the text, in brackets."""
        facts = self.facts
        warning, ended = facts.get("warning"), facts.get("exit")
        marks = [*([f"warning: {warning}"] if warning else []), *map(str, facts.get("notes", ()))]
        marks += [f"exit status {ended}"] if ended is not None else []
        text = f"{self.payload}. {self.hint}" if self.hint and self.hint not in _HINTS else self.payload
        if errors := facts.get("stderr"):
            text = "\n".join(filter(None, (text.rstrip("\n"), "[stderr]", str(errors))))
        return "\n".join([*filter(None, [text.rstrip("\n")]), *(f"[{mark}]" for mark in marks)]) if marks else text
