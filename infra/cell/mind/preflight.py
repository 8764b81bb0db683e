"""Whether the agent is fit to become another version of itself: it can read who it is, record what it does, and run a
command. Asked by the tool `bootstrap`, through which each change of what runs goes.

Not by `rollback`: that is a way out, also of a disk that is full."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from infra.cell.mind.mind import MindContext
from infra.shared.mind.layout import DAILY, EVENTS, IDENTITY, INVARIANTS
from infra.shared.safe_files import Below

MOST_BYTES = 1 << 20
COMMAND, EXPECTED = ("/bin/sh", "-c", "echo fit"), "fit\n"
COMMAND_SECONDS = 10.0
_PROBE = ".preflight"


class FitnessCheck(NamedTuple):
    what: str
    """In words that fit behind "the agent cannot"."""
    why_not: Callable[[], str]
    """Empty when it can."""


def problem(context: MindContext) -> str:
    """Why the agent must not change itself now, in words for the model; empty when it may, and without a mind."""
    if not os.path.isdir(f"{context.places.mind}/.git"):
        return ""
    for check in checks(context):
        if why := check.why_not():
            context.note("mind.preflight_failed", what=check.what, why=why)
            return (
                f"preflight: the agent cannot {check.what}: {why}. Mend that first, or say in your report what it takes"
            )
    return ""


def checks(context: MindContext) -> tuple[FitnessCheck, ...]:
    mind = Below(context.places.mind)
    return (
        *(FitnessCheck(f"read {path}", partial(_unreadable, mind, path)) for path in (IDENTITY, INVARIANTS)),
        FitnessCheck(f"write events ({EVENTS}/)", lambda: _unrecordable(context)),
        FitnessCheck(f"write a daily summary ({DAILY}/)", lambda: _unwritable(mind, DAILY)),
        FitnessCheck("run a command", lambda: _unable(context)),
    )


def _unreadable(mind: Below, path: str) -> str:
    try:
        content = mind.whole(path, MOST_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    try:
        return "" if content.decode().strip() else "it is empty; 'git checkout origin/mind -- boot' puts it back"
    except UnicodeDecodeError:
        return "it is no text; 'git checkout origin/mind -- boot' puts it back"


def _unrecordable(context: MindContext) -> str:
    """The keep says whether its log can be written."""
    try:
        context.record(())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _unwritable(mind: Below, directory: str) -> str:
    """A file beside the real ones: those have their one writer."""
    try:
        path = f"{mind.root}/{directory}"
        os.makedirs(path, exist_ok=True)
        mind.write(f"{directory}/{_PROBE}", b"fit\n")
        if not mind.unlink(f"{directory}/{_PROBE}"):
            return "a file there cannot be removed again"
    except OSError as error:
        full = "; free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return f"{error.strerror or error}{full}"
    return ""


def _unable(context: MindContext) -> str:
    from infra.cell.loop import command
    from infra.cell.loop.bash_tool import environment

    try:
        ran = command.run(
            COMMAND,
            cwd=context.places.mind,
            env=environment(),
            seconds=COMMAND_SECONDS,
            output_chars=200,
            interruption=context.interruption,
            end_session=True,
        )
    except OSError as error:
        return f"{COMMAND[0]} cannot be started: {error.strerror or error}"
    if (ran.status, ran.output) == (0, EXPECTED):
        return ""
    how = "ran out of time" if ran.status is None else f"ended with {ran.status}"
    return f"'{COMMAND[-1]}' {how} and said {ran.output[:100]!r}; expected {EXPECTED!r}"
