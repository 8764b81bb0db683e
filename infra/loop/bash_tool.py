"""The tool `bash`: one command in the checkout, bounded in time and in what is shown of its output.

A command that ends with another status than 0 is a result like any other; only one that could not be run, or was
not let run to its end, is an error."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

from infra.contract import boot
from infra.contract.conversation import Tool
from infra.loop import command
from infra.loop.interruption import Interruption
from infra.loop.toolbox import Entry, Reply, ToolTrouble, schema

BASH = Tool(
    "bash",
    "Run a command with bash in the checkout; gives stdout and stderr together, then the exit status. There is no "
    "terminal and no input. A background process must have its output redirected to a file: the pipe is closed "
    "when the command ends.",
    schema({"command": {"type": "string"}}, {"timeout_seconds": {"type": "number", "minimum": 0}}),
)


def bash_tool(checkout: str, most_seconds: float, output_chars: int, interruption: Interruption) -> Entry:
    def act(given: Mapping[str, Any]) -> Reply:
        if "\0" in given["command"]:
            raise ToolTrouble("the command holds a NUL character, which no command line can hold")
        seconds = min(float(given.get("timeout_seconds", most_seconds)), most_seconds)
        try:
            ran = command.run(
                ["bash", "-c", given["command"]],
                cwd=checkout,
                env=environment(),
                seconds=seconds,
                output_chars=output_chars,
                interruption=interruption,
            )
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise ToolTrouble("the command is too long; put it into a file with write_file and run that") from None
            raise
        return Reply(shown(ran, seconds), is_error=ran.status is None)

    return Entry(BASH, act)


def environment() -> dict[str, str]:
    """What commands of the model inherit: all but the value that makes a process a runner."""
    return {name: value for name, value in os.environ.items() if name != boot.VARIABLE}


def shown(ran: command.Ran, seconds: float) -> str:
    output = f"{ran.output.rstrip(chr(10))}\n" if ran.output.strip("\n") else ""
    if ran.status is None:
        return f"{output}[ended after {seconds:g} s, with everything in its session; what it wrote until then is above]"
    if ran.status < 0:
        return f"{output}[ended by signal {-ran.status}]"
    return f"{output}[exit status {ran.status}]"
