"""The six operations and the six events: the reader and the guide are made from these. An operation asks for a tool, in
the arguments of that tool."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

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


Event = dict[str, Any]
"""What became of an operation, or words of somebody, as JSON; its schema is published."""
EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "createFile": ("path", "bytes", "warning"),
    "readFile": ("path", "content", "lines", "truncated"),
    "editFile": ("path", "replaced", "warning"),
    "deleteFile": ("path",),
    "shell": ("stdout", "stderr", "exit", "truncated", "artifact"),
    "userMessage": ("text", "from"),
}
"""What each type may say beside `type`, `operation`, `status` and `error`: what is known of it."""
