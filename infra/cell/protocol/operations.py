"""The six operations and the six events: the reader, the JSON Schemas and the guide are made from these. An operation
asks for a tool, in the arguments of that tool."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from infra.cell.actions import ToolCall
from infra.cell.tools.bash import Bash
from infra.cell.tools.files import DeleteFile, EditFile, ReadFile, WriteFile
from infra.cell.tools.tool import Args

PROTOCOL: Final = 1
MOST_OPERATIONS: Final = 200
"""In one list."""
MESSAGE: Final = "message"
BLOCKS: Final = frozenset(("text", "content", "old", "new", "command"))
"""Fields that may name a block, which holds the text behind the list."""
SIGNALS: Final = ".signal"
HOPS: Final = {"bootstrap": "branch", "rollback": "ref"}
"""Tools that a file of this name in SIGNALS stands for, and the argument that it holds."""


class Message(Args):
    """Words for the user; nothing is done."""

    text: Annotated[str, Meta(description="words for the user; nothing is done")]


OPERATIONS: Final[Mapping[str, type[Args]]] = {
    MESSAGE: Message,
    "createFile": WriteFile,
    "readFile": ReadFile,
    "editFile": EditFile,
    "deleteFile": DeleteFile,
    "shell": Bash,
}
_TOOLS: Final = (MESSAGE, "write_file", "read_file", "edit_file", "delete_file", "bash")
TOOLS: Final[Mapping[str, str]] = dict(zip(OPERATIONS, _TOOLS, strict=True))
TYPES: Final[Mapping[str, str]] = {tool: kind for kind, tool in TOOLS.items()} | dict.fromkeys(HOPS, "createFile")
"""The type of operation that a tool carries out."""


def call_of(kind: str, given: dict[str, Any], id: str = "") -> ToolCall:
    """An operation of this type as a call; a message is one of no tool."""
    if kind == "createFile":
        # Known by its name, before any link is looked at.
        directory, name = os.path.split(os.path.normpath(given["path"]))
        if name in HOPS and os.path.basename(directory) == SIGNALS:
            return ToolCall(id, name, {HOPS[name]: given["content"].strip()})
        given = {"replace": False} | given
    return ToolCall(id, TOOLS[kind], given)


Natural = Annotated[int, Meta(ge=0)]
Partly = Annotated[bool, Meta(description="true: this is not the whole")]


class OperationError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why an operation was not carried out, or not to its end."""

    type: Literal["validation_error", "policy_denied", "tool_timeout", "tool_unavailable", "execution_error"]
    message: str
    """What was expected, and what was found."""
    retriable: bool
    hint: str
    """What to do next."""


class Event(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"
):
    """What became of an operation. One that is not ok has an error, and those fields that are known."""

    operation: str = ""
    """The id of the operation that it answers; empty for what a user says."""
    status: Literal["ok", "failed", "denied", "awaiting_approval", "not_run"]
    error: OperationError | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return dict(msgspec.to_builtins(self))


class FileCreated(Event, frozen=True, kw_only=True, tag="createFile"):
    path: str | None = None
    bytes: Natural | None = None
    warning: str | None = None


class FileRead(Event, frozen=True, kw_only=True, tag="readFile"):
    path: str | None = None
    content: str | None = None
    lines: Natural | None = None
    truncated: Partly = False


class FileEdited(Event, frozen=True, kw_only=True, tag="editFile"):
    path: str | None = None
    replaced: Natural | None = None
    warning: str | None = None


class FileDeleted(Event, frozen=True, kw_only=True, tag="deleteFile"):
    path: str | None = None


class ShellRun(Event, frozen=True, kw_only=True, tag="shell"):
    stdout: str | None = None
    stderr: str | None = None
    exit: int | None = None
    truncated: Partly = False
    artifact: Annotated[str | None, Meta(description="the file that holds the whole output")] = None


class UserMessage(Event, frozen=True, kw_only=True, tag="userMessage"):
    text: str | None = None
    by: Annotated[str, Meta(description="pm or runtime")] = msgspec.field(default="", name="from")


EVENTS: Final[dict[str, type[Event]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (FileCreated, FileRead, FileEdited, FileDeleted, ShellRun, UserMessage)
}


class EventsMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the runtime says."""

    events: list[FileCreated | FileRead | FileEdited | FileDeleted | ShellRun | UserMessage]
    protocol: Literal[1] = PROTOCOL
