"""The tool `bash`: one command in the checkout, bounded in time and in what is shown of its output.

A command that ends with another status than 0 is a result like any other; only one that could not be run, or was
not let run to its end, is an error."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

from msgspec import Meta

from infra.cell.actions import ToolResult
from infra.cell.interruption import Interruption
from infra.cell.tools import command
from infra.cell.tools.files import Path
from infra.cell.tools.spill import Spill
from infra.cell.tools.tool import Args, Position, Tool, ToolError
from infra.shared import boot
from infra.shared.paths import (
    LABEL_VARIABLE,
    ROOT,
    RUN_VARIABLE,
    STEP_VARIABLE,
    WEB_PYTHON_VARIABLE,
    WEB_SOCKET_VARIABLE,
)
from infra.shared.policy import EXECUTE

PROGRAMS = f"{ROOT}/infra/cell/bin"
END_SECONDS = 5.0
"""For ending a command whose time is over, and for keeping its output."""
NAME = "bash"


class Bash(Args):
    """Run a command with bash, in the checkout or in cwd; gives stdout, stderr and the exit status. Of long output both
    ends are shown, and a file is named that holds the whole. Redirect the output of a background
    process to a file."""

    command: Annotated[str, Meta(pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
    timeout: Annotated[float, Meta(gt=0, description="seconds")] | None = None
    cwd: Path | None = None


def bash_tool(
    checkout: str,
    most_seconds: float,
    output_chars: int,
    interruption: Interruption,
    web_socket: str = "",
    at: Position | None = None,
) -> Tool:
    """`web_socket` and `at` are for commands that read the web."""
    spill = Spill(checkout)

    def act(given: Bash) -> ToolResult:
        where = os.path.join(checkout, given.cwd or "")
        if not os.path.isdir(where):
            hint = "Leave cwd out to run the command in the checkout" if given.cwd else "Give a cwd that there is"
            raise ToolError(f"{where!r} is no directory", hint)
        seconds = min(given.timeout or most_seconds, most_seconds)
        ran = command.run(
            ["bash", "-c", given.command],
            cwd=where,
            env=environment(web_socket, at),
            seconds=seconds,
            output_chars=output_chars,
            interruption=interruption,
        )
        facts: dict[str, Any] = {"stderr": ran.errors}
        notes, kept = list[str](), tuple[str, ...]()
        if ran.beginning:
            is_whole = len(ran.beginning) < command.MOST_KEPT
            kept, note = spill.keep(ran.beginning, "the whole" if is_whole else f"its first {command.MOST_KEPT} bytes")
            facts |= {"truncated": True} | ({"artifact": kept[0]} if kept else {})
            notes.append(note)
        if ran.status is None:
            notes.append(f"ended after {seconds:g} s, with all in its process group; what it wrote until then is above")
        else:
            facts["exit"] = ran.status if ran.status >= 0 else 128 - ran.status
        facts |= {"notes": notes} if notes else {}
        result = ToolResult(ran.output) if ran.status is not None else ToolResult.err("timeout", ran.output)
        return result._replace(artifacts=kept, facts=facts)

    # Not tried again: a command that met an error on its way may have begun. It ends by itself, with what it wrote.
    return Tool(NAME, Bash, act, round((most_seconds + END_SECONDS) * 1000), EXECUTE)


def environment(web_socket: str = "", at: Position | None = None) -> dict[str, str]:
    """What commands of the model inherit: all but the value that makes a process a runner; and the programs of ours
    that are for them."""
    kept = {name: value for name, value in os.environ.items() if name != boot.VARIABLE}
    if not web_socket:
        return kept
    path = f"{kept.get('PATH', os.defpath)}{os.pathsep}{PROGRAMS}"
    where = {RUN_VARIABLE: at.run, STEP_VARIABLE: str(at.step), LABEL_VARIABLE: at.label} if at else {}
    return kept | where | {"PATH": path, WEB_SOCKET_VARIABLE: web_socket, WEB_PYTHON_VARIABLE: sys.executable}
