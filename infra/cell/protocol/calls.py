"""Operations as calls of tools: the two ways of asking for the same acts, by name and arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from infra.cell.protocol.operations import CreateFile, Operation

SIGNALS: Final = ".signal"
HOPS: Final = {"bootstrap": "branch", "rollback": "ref"}
"""Tools that a file of this name in SIGNALS stands for, and the argument that it holds."""
TOOLS: Final[Mapping[str, str]] = {
    "createFile": "write_file",
    "readFile": "read_file",
    "editFile": "edit_file",
    "deleteFile": "delete_file",
    "shell": "bash",
}
TYPES: Final[Mapping[str, str]] = {tool: kind for kind, tool in TOOLS.items()} | dict.fromkeys(HOPS, "createFile")
"""The type of operation that a tool carries out."""


class NamedCall(NamedTuple):
    name: str
    input: dict[str, Any]


def call_of(operation: Operation) -> NamedCall:
    """Of any operation but a message, which asks for nothing."""
    given = operation.given()
    if isinstance(operation, CreateFile):
        # Known by its name, before any link is looked at.
        directory, name = os.path.split(os.path.normpath(operation.path))
        if name in HOPS and os.path.basename(directory) == SIGNALS:
            return NamedCall(name, {HOPS[name]: str(operation.content).strip()})
        given.setdefault("replace", False)
    return NamedCall(TOOLS[operation.type], given)
