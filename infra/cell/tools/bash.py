"""The tool `bash`: one command in the checkout, bounded in time and in what is shown of its output.

A command that ends with another status than 0 is a result like any other; only one that could not be run, or was
not let run to its end, is an error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from typing import Any

from infra.cell.actions import ToolResult
from infra.cell.interruption import Interruption
from infra.cell.tools import command
from infra.cell.tools.arguments import schema
from infra.cell.tools.registry import Position, SideEffect, Tool, ToolError
from infra.cell.tools.spill import MOST_BYTES, Spill
from infra.shared import boot
from infra.shared.conversation import ToolSpec
from infra.shared.paths import ROOT, RUN_VARIABLE, STEP_VARIABLE, WEB_PYTHON_VARIABLE, WEB_SOCKET_VARIABLE

CWD = {"type": "string", "description": "the directory to run it in; the checkout when left out"}
BASH = ToolSpec(
    "bash",
    "Run a command with bash in the checkout; gives stdout and stderr together, then the exit status. Of long output "
    "the two ends are shown, and where the whole is kept, to be searched with grep or sed. There is no "
    "terminal and no input. A background process must have its output redirected to a file: the pipe is closed "
    "when the command ends.",
    schema({"command": {"type": "string"}}, {"timeout": {"type": "number", "minimum": 0}, "cwd": CWD}),
)


PROGRAMS = f"{ROOT}/infra/cell/bin"
END_SECONDS = 5.0
"""For ending a command whose time is over, and for keeping its output."""


def bash_tool(
    checkout: str,
    most_seconds: float,
    output_chars: int,
    interruption: Interruption,
    is_for_events: bool = False,
    web_socket: str = "",
    at: Position | None = None,
) -> Tool:
    """For events, stdout and stderr come apart, and the exit status as a fact alone. `web_socket` and `at` are for
    commands that read the web."""
    spill = Spill(checkout)

    def act(given: Mapping[str, Any], all_seconds: float) -> ToolResult:
        if "\0" in given["command"]:
            raise ToolError("the command holds a NUL character, which no command line can hold")
        where = os.path.join(checkout, given.get("cwd", ""))
        if not os.path.isdir(where):
            raise ToolError(f"cwd {where!r} is no directory", "Leave it out to run the command in the checkout")
        seconds = min(float(given.get("timeout", most_seconds)), most_seconds)
        try:
            ran = command.run(
                ["bash", "-c", given["command"]],
                cwd=where,
                env=environment(web_socket, at),
                seconds=seconds,
                output_chars=output_chars,
                interruption=interruption,
                beginning_bytes=MOST_BYTES,
                apart=is_for_events,
            )
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise ToolError("the command is too long", "Write it into a file, and run that") from None
            raise
        kept, note = _kept(spill, ran.beginning) if ran.left_out else ((), "")
        facts: dict[str, Any] = {"stderr": ran.errors} if is_for_events else {}
        facts |= {} if ran.status is None else {"exit": ran.status if ran.status >= 0 else 128 - ran.status}
        facts |= {"truncated": True} if ran.left_out else {}
        facts |= {"artifact": kept[0]} if kept else {}
        payload = ran.output if is_for_events else shown(ran, seconds, note)
        if ran.status is None:
            hint = f"it was ended after {seconds:g} s: give it more time, or less to do" if is_for_events else ""
            return ToolResult.err("timeout", payload, hint)._replace(artifacts=kept, facts=facts)
        return ToolResult(payload, artifacts=kept, facts=facts)

    # Not tried again: a command that met an error on its way may have begun. It ends by itself, with what it wrote.
    return Tool(BASH, act, round((most_seconds + END_SECONDS) * 1000), SideEffect.EXECUTE)


def _kept(spill: Spill, whole: bytes) -> tuple[tuple[str, ...], str]:
    """The path of an output whose two ends are shown, and words for it; a full disk costs no result."""
    try:
        path = spill.keep(whole)
    except OSError as error:
        return (), f"[the rest could not be kept: {error.strerror}]\n"
    return (path,), f"[{'the whole' if len(whole) < MOST_BYTES else f'its first {MOST_BYTES} bytes'}: {path}]\n"


def environment(web_socket: str = "", at: Position | None = None) -> dict[str, str]:
    """What commands of the model inherit: all but the value that makes a process a runner; and the programs of ours
    that are for them."""
    kept = {name: value for name, value in os.environ.items() if name != boot.VARIABLE}
    if not web_socket:
        return kept
    path = f"{kept.get('PATH', os.defpath)}{os.pathsep}{PROGRAMS}"
    where = {RUN_VARIABLE: at.run, STEP_VARIABLE: str(at.step)} if at else {}
    return kept | where | {"PATH": path, WEB_SOCKET_VARIABLE: web_socket, WEB_PYTHON_VARIABLE: sys.executable}


def shown(ran: command.Ran, seconds: float, where: str = "") -> str:
    output = f"{ran.output.rstrip(chr(10))}\n" if ran.output.strip("\n") else ""
    output += where
    if ran.status is None:
        return f"{output}[ended after {seconds:g} s, with everything in its session; what it wrote until then is above]"
    if ran.status < 0:
        return f"{output}[ended by signal {-ran.status}]"
    return f"{output}[exit status {ran.status}]"
