"""The six operations and the six events, as types: the reader, the JSON Schemas and the guide are made from these."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

PROTOCOL: Final = 1
MOST_OPERATIONS: Final = 200
"""In one list."""

OK, FAILED, DENIED, AWAITING, NOT_RUN = "ok", "failed", "denied", "awaiting_approval", "not_run"
STATUSES: Final = (OK, FAILED, DENIED, AWAITING, NOT_RUN)
VALIDATION, POLICY, TIMEOUT = "validation_error", "policy_denied", "tool_timeout"
UNAVAILABLE, EXECUTION = "tool_unavailable", "execution_error"
ERROR_TYPES: Final = (VALIDATION, POLICY, TIMEOUT, UNAVAILABLE, EXECUTION)


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text of the fence with this name, behind the list."""

    block: Annotated[str, Meta(min_length=1)]


# `$` alone would let a newline at the end through.
_PATH = r"^[^\s`*#\"'<\x00-\x1f](?:[^\x00-\x1f]*[^\s`*\"':,>\x00-\x1f])?$(?!\n)"
Path = Annotated[str, Meta(pattern=_PATH, description="the path alone, such as src/a.py")]
Seconds = Annotated[float, Meta(gt=0, lt=1e9)]
Lines = Annotated[int, Meta(ge=0, lt=2**53)]
Count = Annotated[int, Meta(ge=1, lt=2**53)]
Command = Annotated[str, Meta(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]


def _about(words: str) -> Meta:
    return Meta(description=words)


class Operation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """One act that an agent asks for."""

    id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """Left out, it is the place in the list, from "1"."""

    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)

    def given(self) -> dict[str, Any]:
        """What it says, but for `type` and `id`."""
        return {
            name: value for name, value in msgspec.structs.asdict(self).items() if name != "id" and value is not None
        }


class Message(Operation, frozen=True, kw_only=True, tag="message"):
    text: Annotated[str | Block, _about("words for the user; nothing is done")]


class CreateFile(Operation, frozen=True, kw_only=True, tag="createFile"):
    path: Path
    content: str | Block
    replace: Annotated[bool | None, _about("true: the file may exist, and is replaced; false is the default")] = None


class ReadFile(Operation, frozen=True, kw_only=True, tag="readFile"):
    path: Path
    offset: Annotated[Lines | None, _about("lines to skip")] = None
    limit: Annotated[Count | None, _about("lines to give at most")] = None


class EditFile(Operation, frozen=True, kw_only=True, tag="editFile"):
    path: Path
    old: Annotated[str | Block, _about("literal text that occurs exactly `count` times")]
    new: str | Block
    count: Annotated[Count | None, _about("1 is the default")] = None


class DeleteFile(Operation, frozen=True, kw_only=True, tag="deleteFile"):
    path: Path


class Shell(Operation, frozen=True, kw_only=True, tag="shell"):
    command: Annotated[Command | Block, _about("a command line for bash")]
    timeout: Annotated[Seconds | None, _about("seconds")] = None
    cwd: Annotated[Path | None, _about("the directory; the workspace is the default")] = None


OPERATIONS: Final[dict[str, type[Operation]]] = {
    str(kind.__struct_config__.tag): kind for kind in (Message, CreateFile, ReadFile, EditFile, DeleteFile, Shell)
}
AnyOperation = Message | CreateFile | ReadFile | EditFile | DeleteFile | Shell
OperationList = Annotated[list[AnyOperation], Meta(max_length=MOST_OPERATIONS)]


class OperationsMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent says; the list alone means the same."""

    operations: OperationList
    protocol: Literal[1] = PROTOCOL


_ELISION = re.compile(
    r"^[ \t]*(?:(?:#|//|--|/\*)[ \t]*)?(?:\.{3}|…)"
    r"(?:[ \t]*(?:\(?(?:rest|existing|remaining|same|unchanged)\b.*))?[ \t]*(?:\*/)?$"
    r"|^[ \t]*(?:#|//|--|/\*)[ \t]*(?:rest of|existing)\b.*\b(?:code|file|unchanged|here)\b",
    re.MULTILINE | re.IGNORECASE,
)


def is_elided(text: str) -> bool:
    """It holds a line that stands for lines left out."""
    return _ELISION.search(text) is not None


def problem_with_edit(old: str, new: str) -> str:
    """Why this cannot be meant; empty when it can."""
    if not old:
        return "old is empty; expected text that the file holds; a new file is created whole"
    if old == new:
        return "old and new are equal; expected a change"
    if is_elided(new) and not is_elided(old):
        return "new stands for lines that it leaves out; expected the whole text that replaces old"
    return ""


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
    bytes: Lines | None = None
    warning: str | None = None


class FileRead(Event, frozen=True, kw_only=True, tag="readFile"):
    path: str | None = None
    content: str | None = None
    lines: Lines | None = None
    truncated: Annotated[bool, _about("true: this is not the whole")] = False


class FileEdited(Event, frozen=True, kw_only=True, tag="editFile"):
    path: str | None = None
    replaced: Lines | None = None
    warning: str | None = None


class FileDeleted(Event, frozen=True, kw_only=True, tag="deleteFile"):
    path: str | None = None


class ShellRun(Event, frozen=True, kw_only=True, tag="shell"):
    stdout: str | None = None
    stderr: str | None = None
    exit: int | None = None
    truncated: Annotated[bool, _about("true: this is not the whole")] = False
    artifact: Annotated[str | None, _about("the file that holds the whole output")] = None


class UserMessage(Event, frozen=True, kw_only=True, tag="userMessage"):
    text: str | None = None
    by: Annotated[str, _about("pm or runtime")] = msgspec.field(default="", name="from")


EVENTS: Final[dict[str, type[Event]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (FileCreated, FileRead, FileEdited, FileDeleted, ShellRun, UserMessage)
}


class EventsMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the runtime says."""

    events: list[FileCreated | FileRead | FileEdited | FileDeleted | ShellRun | UserMessage]
    protocol: Literal[1] = PROTOCOL
