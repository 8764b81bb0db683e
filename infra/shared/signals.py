"""Signals from the cell to the watcher (seed 001, Signal Mechanism): a file in `/bot/.signal/` named
after what is asked, holding one line. The cell writes it whole, the watcher claims and deletes it."""

from __future__ import annotations

import os
from enum import Enum
from typing import NamedTuple

from infra.shared.branches import problem_with_branch, problem_with_ref
from infra.shared.files import write_whole

MAX_BYTES = 4096
FALLBACK = "fallback: "
"""How the reason of a start begins that is not what a signal asked for, which failed."""


class SignalName(Enum):
    BOOTSTRAP = "bootstrap"
    """Launch this branch."""
    ROLLBACK = "rollback"
    """Give main the tree of this ref."""


class Signal(NamedTuple):
    name: SignalName
    target: str
    """A branch for bootstrap, a git ref for rollback."""


def write_signal(directory: str, signal: Signal) -> None:
    """Write `signal` for the watcher. Raises ValueError for an invalid target, OSError when it cannot be written."""
    problem = problem_with_target(signal.name, signal.target)
    if problem:
        raise ValueError(problem)
    os.makedirs(directory, exist_ok=True)
    write_whole(f"{directory}/{signal.name.value}", f"{signal.target}\n".encode())


def read_signal(name: SignalName, content: bytes) -> Signal:
    """What a claimed file asks for. Raises ValueError that says what is wrong with it."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"the {name.value} signal is over {MAX_BYTES} bytes; expected one line with a name")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the {name.value} signal is not UTF-8; expected one line with a name") from None
    target = text[:-1] if text.endswith("\n") else text
    if "\n" in target:
        raise ValueError(f"the {name.value} signal holds several lines; expected one")
    problem = problem_with_target(name, target)
    if problem:
        raise ValueError(f"the {name.value} signal was refused: {problem}")
    return Signal(name, target)


def problem_with_target(name: SignalName, target: str) -> str | None:
    return problem_with_branch(target) if name is SignalName.BOOTSTRAP else problem_with_ref(target)
