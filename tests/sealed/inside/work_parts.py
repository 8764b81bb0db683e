"""What the tables of ordinary work have in common: a name for each piece, a shell, a child for what is not undone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

Work = Callable[[], object]


def register(table: dict[str, Work], what: str) -> Callable[[Work], Work]:
    """Decorate a function with the name of the work that it does."""

    def add(act: Work) -> Work:
        table[what] = act
        return act

    return add


def shell(line: str) -> str:
    """Run a line of shell; a failure is raised with what it said."""
    ended = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True, timeout=60)
    if ended.returncode:
        raise RuntimeError(f"{line}: {ended.returncode}: {ended.stderr.strip()[-500:]}")
    return ended.stdout


def in_child_alone(act: Work) -> None:
    """In a child, because it cannot be undone."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("the child failed")
