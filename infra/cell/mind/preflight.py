"""Whether the agent is fit to become another version of itself: it can read who it is, record what it does, and run a
command. Asked by the tool `bootstrap`, through which each change of what runs goes.

Not by `rollback`: that is a way out, also of a disk that is full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from infra.cell.cell import Cell
from infra.shared.mind.layout import DAILY, EVENTS, IDENTITY, INVARIANTS
from infra.shared.safe_files import Below

COMMAND_SECONDS = 10.0
_PROBE = f"{DAILY}/.preflight"


def problem(cell: Cell) -> str:
    """Why the agent must not change itself now, in words for the model; empty when it may, and without a mind."""
    mind = Below(cell.boot.places.mind)
    if not os.path.isdir(f"{mind.root}/.git"):
        return ""
    checks: dict[str, Callable[[], object]] = {
        f"read {IDENTITY}": lambda: _read(mind, IDENTITY),
        f"read {INVARIANTS}": lambda: _read(mind, INVARIANTS),
        f"write events ({EVENTS}/)": lambda: cell.keep.record(()),  # the keep says whether its log can be written
        f"write a daily summary ({DAILY}/)": lambda: _write(mind),
        "run a command": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True, timeout=COMMAND_SECONDS),
    }
    for what, check in checks.items():
        try:
            check()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = getattr(error, "strerror", None) or str(error)
            cell.log.info("mind.preflight_failed", what=what, why=why)
            return f"preflight: the agent cannot {what}: {why}. Mend that first, or say in your report what it takes"
    return ""


def _read(mind: Below, path: str) -> None:
    content = mind.whole(path)
    if not content.strip() or b"\0" in content:
        raise ValueError("it is empty, or no text; 'git checkout origin/mind -- boot' puts it back")


def _write(mind: Below) -> None:
    """A file beside the real ones: those have their one writer."""
    os.makedirs(f"{mind.root}/{DAILY}", exist_ok=True)
    mind.write(_PROBE, b"fit\n")
    mind.unlink(_PROBE)
