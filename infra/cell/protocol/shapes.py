"""The six operations and the six events: their fields, as tables that the reader, the schema and the guide share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

PROTOCOL: Final = 1
MOST_OPERATIONS: Final = 200
"""In one list."""
MOST_ID_CHARS: Final = 200


class Field(NamedTuple):
    """One field of an operation or an event."""

    name: str
    kind: str
    """`text` (a string, in an operation also a block), `path`, `seconds` (a number above 0), `lines` (an integer from 0
    up), `count` (an integer from 1 up), `flag`, `status` (an integer)."""
    required: bool = True
    about: str = ""


OPERATIONS: Final[Mapping[str, tuple[Field, ...]]] = {
    "message": (Field("text", "text", about="words for the user; nothing is done"),),
    "createFile": (
        Field("path", "path"),
        Field("content", "text"),
        Field("replace", "flag", False, "true: the file may exist, and is replaced; false is the default"),
    ),
    "readFile": (
        Field("path", "path"),
        Field("offset", "lines", False, "lines to skip"),
        Field("limit", "count", False, "lines to give at most"),
    ),
    "editFile": (
        Field("path", "path"),
        Field("old", "text", about="literal text that occurs exactly `count` times"),
        Field("new", "text"),
        Field("count", "count", False, "1 is the default"),
    ),
    "deleteFile": (Field("path", "path"),),
    "shell": (
        Field("command", "text", about="a command line for bash"),
        Field("timeout", "seconds", False),
        Field("cwd", "path", False, "the directory; the workspace is the default"),
    ),
}

_WARNING = Field("warning", "text", False)
_CUT = Field("truncated", "flag", False, "true: this is not the whole")
EVENTS: Final[Mapping[str, tuple[Field, ...]]] = {
    "createFile": (Field("path", "text"), Field("bytes", "lines"), _WARNING),
    "readFile": (Field("path", "text"), Field("content", "text"), Field("lines", "lines"), _CUT),
    "editFile": (Field("path", "text"), Field("replaced", "lines"), _WARNING),
    "deleteFile": (Field("path", "text"),),
    "shell": (
        Field("stdout", "text"),
        Field("stderr", "text"),
        Field("exit", "status"),
        _CUT,
        Field("artifact", "text", False, "the file that holds the whole output"),
    ),
    "userMessage": (Field("text", "text"), Field("from", "text", about="pm or runtime")),
}
"""Beside `type`, `operation`, `status` and `error`; what is required here stands in events that are ok."""

OK, FAILED, DENIED, AWAITING, NOT_RUN = "ok", "failed", "denied", "awaiting_approval", "not_run"
STATUSES: Final = (OK, FAILED, DENIED, AWAITING, NOT_RUN)
VALIDATION, POLICY, TIMEOUT, UNAVAILABLE, EXECUTION = (
    *("validation_error", "policy_denied", "tool_timeout"),
    *("tool_unavailable", "execution_error"),
)
ERROR_TYPES: Final = (VALIDATION, POLICY, TIMEOUT, UNAVAILABLE, EXECUTION)


class OperationError(NamedTuple):
    """Why an operation was not carried out, or not to its end."""

    type: str
    """One of ERROR_TYPES."""
    message: str
    """What was expected, and what was found."""
    retriable: bool
    hint: str
    """What to do next."""


class Operation(NamedTuple):
    """One act that an agent asks for."""

    id: str
    type: str
    fields: Mapping[str, Any]
    """With the text of blocks in its place; a field that was left out, or null, is not there."""


class RefusedOperation(NamedTuple):
    """An element of the list that is no operation of ours."""

    id: str
    type: str
    """Of the operation that it means; `userMessage` when that is unknown."""
    error: OperationError


class ProtocolEvent(NamedTuple):
    """What became of an operation, or what a user says."""

    type: str
    operation: str
    """The id of the operation that it answers; empty for a `userMessage`."""
    status: str
    fields: Mapping[str, Any]
    error: OperationError | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        named = {"type": self.type, "operation": self.operation, "status": self.status} | dict(self.fields)
        if not self.operation:
            del named["operation"]
        return named if self.error is None else named | {"error": self.error._asdict()}
