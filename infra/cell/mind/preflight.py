"""Whether the agent is fit to become another version of itself: it can read who it is, record what it does, and run a
command. Asked by the tool `bootstrap`, through which each change of what runs goes.

Not by `rollback`: that is a way out, also of a disk that is full."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial

from infra.cell.mind.mind import MindContext
from infra.shared.mind.layout import DAILY, EVENTS, IDENTITY, INVARIANTS
from infra.shared.safe_files import Below

MOST_BYTES = 1 << 20
COMMAND, EXPECTED = ("/bin/sh", "-c", "echo fit"), "fit\n"
COMMAND_SECONDS = 10.0
_PROBE = ".preflight"


def problem(context: MindContext) -> str:
    """Why the agent must not change itself now, in words for the model; empty when it may, and without a mind."""
    mind = Below(context.places.mind)
    if not os.path.isdir(f"{context.places.mind}/.git"):
        return ""
    checks: tuple[tuple[str, Callable[[], object]], ...] = (
        *((f"read {path}", partial(_read, mind, path)) for path in (IDENTITY, INVARIANTS)),
        (f"write events ({EVENTS}/)", partial(context.record, ())),  # the keep says whether its log can be written
        (f"write a daily summary ({DAILY}/)", partial(_write, mind)),
        ("run a command", partial(_run, context)),
    )
    for what, check in checks:
        try:
            check()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            full = getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT)
            context.note("mind.preflight_failed", what=what, why=why)
            todo = "Free some space" if full else "Mend that first"
            return f"preflight: the agent cannot {what}: {why}. {todo}, or say in your report what it takes"
    return ""


def _read(mind: Below, path: str) -> None:
    content = mind.whole(path, MOST_BYTES)
    if not content.strip() or b"\0" in content:
        raise ValueError("it is empty, or no text; 'git checkout origin/mind -- boot' puts it back")


def _write(mind: Below) -> None:
    """A file beside the real ones: those have their one writer."""
    os.makedirs(f"{mind.root}/{DAILY}", exist_ok=True)
    mind.write(f"{DAILY}/{_PROBE}", b"fit\n")
    if not mind.unlink(f"{DAILY}/{_PROBE}"):
        raise ValueError("a file there cannot be removed again")


def _run(context: MindContext) -> None:
    from infra.cell.tools import command
    from infra.cell.tools.bash import environment

    ran = command.run(
        COMMAND,
        cwd=context.places.mind,
        env=environment(),
        seconds=COMMAND_SECONDS,
        output_chars=200,
        interruption=context.interruption,
        end_session=True,
    )
    if (ran.status, ran.output) != (0, EXPECTED):
        how = "ran out of time" if ran.status is None else f"ended with {ran.status}"
        raise ValueError(f"'{COMMAND[-1]}' {how} and said {ran.output[:100]!r}; expected {EXPECTED!r}")
