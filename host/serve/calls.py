"""A command of `minifram`, called as a function: what it found or did, or one of the five kinds of error that an API
knows. The page, the API and MCP have no logic beside the commands'."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from host.errors import CommandError, as_command_error
from host.home import Context
from host.screen import Shown, harmless, plain
from infra.cell.actions import EXECUTION, POLICY, TIMEOUT, UNAVAILABLE, VALIDATION
from infra.shared.exit_codes import Exit

_KINDS = {
    Exit.USAGE: (VALIDATION, 422, False),
    Exit.NOT_FOUND: (VALIDATION, 404, False),
    Exit.CONFLICT: (VALIDATION, 409, False),
    Exit.DENIED: (POLICY, 403, False),
    Exit.BUDGET: (POLICY, 403, False),
    Exit.NOT_RUNNING: (UNAVAILABLE, 503, True),
    Exit.TRY_AGAIN: (UNAVAILABLE, 503, True),
}
"""Exit code -> error type, HTTP status, whether the same may do later. Any other is an execution error."""
_STATUSES = {VALIDATION: 422, POLICY: 403, TIMEOUT: 504, UNAVAILABLE: 503, EXECUTION: 500}


class Problem(Exception):
    """Why something was not done; `type` is one of `protocol.operations.ERROR_TYPES`."""

    def __init__(self, type: str, text: str, status: int = 0, retriable: bool = False, hint: str = "") -> None:
        super().__init__(text)
        self.type, self.retriable, self.hint = type, retriable, hint
        self.status = status or _STATUSES[type]

    def as_json(self) -> dict[str, Any]:
        return {"error": self.type, "message": str(self), "retriable": self.retriable, "hint": self.hint}


class Done(NamedTuple):
    """What a command ended with."""

    value: Any
    """As its `--json` has it, without the name of the schema."""
    lines: tuple[str, ...]
    """As a terminal shows it, without colours."""
    advice: str


def call(command: click.Command, context: Context, **given: Any) -> Done:
    """Raises Problem. `given` are the parameters of the command's function, all of those that have no default."""
    function = getattr(command.callback, "__wrapped__")  # noqa: B009 - click types the callback without it
    try:
        ended = function(context, lambda line: None, **given)
        shown = ended if isinstance(ended, Shown) else list(ended)[-1]
        lines = [shown.lines] if isinstance(shown.lines, str) else shown.lines
        return Done(plain(shown.value), tuple(map(harmless, lines)), harmless(shown.advice))
    except Exception as error:
        raise problem_of(error) from error


def problem_of(error: Exception) -> Problem:
    """`error` for whoever asked. Raises `error` itself when it is a bug."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, click.ClickException):
        error = CommandError(Exit.USAGE, error.format_message())
    known = as_command_error(error)
    if known is None:
        raise error
    text, _, hint = harmless(str(known)).partition("; ")
    kind, status, retriable = _KINDS.get(known.code, (EXECUTION, 500, False))
    return Problem(kind, text, status, retriable, hint)
