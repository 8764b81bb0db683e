"""A workspace in which replies of a model are carried out as operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.interruption import Interruption
from infra.cell.loop.loop import NOT_RUN
from infra.cell.loop.ways import event_of
from infra.cell.protocol.operations import MESSAGE, Event
from infra.cell.protocol.read import read
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.files import file_tools
from infra.cell.tools.tool import Gate, Toolbox

LIMIT = 2000


def carry_out(items: Iterable[ToolCall], dispatch: Callable[[ToolCall], ToolResult]) -> Iterator[Event]:
    """In the order of the list. One that fails stops no other; behind one that hands over nothing is done."""
    handed_over = False
    for call in (item for item in items if item.name != MESSAGE):
        result = ToolResult.err("not_run", NOT_RUN) if handed_over else dispatch(call)
        handed_over = handed_over or result.hands_over
        yield event_of(call, result)


class Workbench:
    """A clone of `main` below a root of its own."""

    def __init__(self, directory: Path, gate: Gate | None = None, shown: int = LIMIT) -> None:
        self.clone = directory / "bot" / "main" / "minifram"
        self.clone.mkdir(parents=True)
        self.tools = (
            *file_tools(str(self.clone), shown),
            bash_tool(str(self.clone), 10, shown, Interruption()),
        )
        self.toolbox = Toolbox(self.tools, gate)

    def reply(self, text: str) -> list[dict[str, Any]]:
        """The events that a reply gets."""
        return list(carry_out(read(text).items, self.toolbox.call))
