"""Where the branches' environments lie: directories `<16 digits of the hash>-<8 of chance>`, never moved, because what
is installed names the place it was installed at. One is whole when its marker is there, which is written last.

All of it is the agent's own, as its checkout is: it can forge a marker or change what was installed. So the keep never
runs or imports anything from here; only the runner is started with it, as the cell."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

from infra.keep.environments.requirements import (
    MAX_BYTES,
    NAMES,
    BadRequirements,
    fingerprint,
    this_runtime,
    understand,
)
from infra.shared.file_lock import lock_until
from infra.shared.safe_files import Below
from infra.shared.safe_steps import NotPlain

MARKER = ".whole"
"""Holds the hash and a newline."""
MAX_ENTRIES = 1000
POLL_SECONDS = 0.1
_ENVIRONMENT = re.compile(r"(?P<hash>[0-9a-f]{16})-[0-9a-f]{8}")


def select(bot: Below, checkout: str, own_file: str, environments: str) -> str | None:
    """The interpreter for the runner of `checkout`; None when its environment has to be installed first. `own_file` is
    what the keep was installed from. Raises BadRequirements and OSError.

    For most starts two small files are read and nothing more. The interpreter's directory comes first in PATH, and no
    other environment's is in PATH."""
    source, theirs = read_requirements(bot, checkout)
    wanted = wanted_hash(theirs, _read_own(own_file), source)
    if not wanted:
        return sys.executable
    found = paths_of(wanted, whole_ones(bot, environments))
    return interpreter_in(found[0]) if found else None


def wanted_hash(theirs: bytes | None, own: bytes | None, source: str) -> str:
    """Of the environment that a requirements file leads to; empty when the keep's own interpreter will do: there is no
    file, it names nothing, or it says the same as the keep's. Raises BadRequirements."""
    if theirs is None or theirs == own:
        return ""
    wanted = understand(theirs, source)
    if not wanted.text or (own is not None and wanted == understand(own, "the keep's own requirements")):
        return ""
    return fingerprint(wanted, this_runtime())


def paths_of(wanted: str, whole: dict[str, str]) -> list[str]:
    return sorted(path for path, found in whole.items() if found == wanted)


def interpreter_in(path: str) -> str:
    return f"{path}/bin/python"


def read_requirements(bot: Below, checkout: str) -> tuple[str, bytes | None]:
    """The name and content of the file that counts; None when there is none. Raises BadRequirements and OSError."""
    if not bot.is_directory(checkout):
        raise OSError(f"{checkout} is not a directory, or cannot be reached")
    for name in NAMES:
        try:
            return name, bot.whole(f"{checkout}/{name}", MAX_BYTES)
        except FileNotFoundError:
            continue
        except NotPlain:
            raise BadRequirements(f"{name} is not a regular file of up to {MAX_BYTES} bytes; commit one") from None
        except PermissionError:
            raise BadRequirements(f"{name} may not be read; chmod it to 644") from None
    return "", None


def whole_ones(bot: Below, environments: str) -> dict[str, str]:
    """Path -> hash of the environments that can be used; none when the directory is missing, a link or closed."""
    try:
        every = entries(bot, environments)
    except OSError:  # the next install puts that right
        return {}
    return {path: whole for path in every if (whole := _hash_of(bot, path))}


def entries(bot: Below, environments: str) -> list[str]:
    """Paths of everything that lies there. Raises OSError."""
    return [f"{environments}/{name}" for name in bot.names(environments, MAX_ENTRIES)]


def forget(bot: Below, path: str) -> None:
    """Use this environment no more: it looked whole and has failed. It is installed again when it is next asked for."""
    bot.unlink(f"{path}/{MARKER}")


def remove(bot: Below, path: str) -> None:
    """It first loses its marker, so that one which is removed in part is never used. Raises OSError."""
    forget(bot, path)
    bot.remove(path)


@contextlib.contextmanager
def alone_in(environments: str, until: float) -> Iterator[None]:
    """Hold a lock on the directory itself, waiting for it until then (monotonic). Raises OSError."""
    descriptor = os.open(environments, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not lock_until(descriptor, until, POLL_SECONDS):
            raise TimeoutError(f"another install or tidying holds {environments}; try again")
        yield
    finally:
        os.close(descriptor)


def _hash_of(bot: Below, path: str) -> str:
    """The hash of a whole environment; empty for anything else."""
    match = _ENVIRONMENT.fullmatch(os.path.basename(path))
    try:
        marked = bot.whole(f"{path}/{MARKER}", 65).decode("ascii", errors="replace") if match else ""
    except OSError:
        return ""
    is_marked = match and re.fullmatch(r"[0-9a-f]{64}\n", marked) and marked.startswith(match["hash"])
    # An upgrade can have taken away the interpreter that the link leads to.
    return marked[:64] if is_marked and bot.leads_to_program(interpreter_in(path)) else ""


def _read_own(path: str) -> bytes | None:
    """The keep's own file is trusted. One that has none fits no branch that has one."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
