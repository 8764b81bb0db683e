"""Tools made for a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from infra.cell.actions import ToolResult
from infra.cell.tools.tool import Args, Tool
from infra.shared.policy import EXECUTE


def args_of(name: str, /, **takes: Any) -> type[Args]:
    """Arguments by name: a type, or a type and a default."""
    fields = [(field, *given) if isinstance(given, tuple) else (field, given) for field, given in takes.items()]
    made: type[Any] = msgspec.defstruct(name, fields, bases=(Args,))
    return made


def tool(name: str, act: Callable[[Any], ToolResult], /, **takes: Any) -> Tool:
    """One that has a second, and may do anything."""
    return Tool(name, args_of(name, **takes), act, 1000, EXECUTE)
