"""What the installer reports: one line of JSON on stdout. It ran as the cell, so its output is input: any bytes and any
status are read as one of two values, with bounded text."""

from __future__ import annotations

import contextlib
import re
from typing import Annotated

import msgspec

from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.text import cut

MAX_BYTES = 64 * 1024
WORDS_LINES = 20
LINE_CHARS = 300
ERROR_CHARS = 500
_NO_TEXT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Installed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    interpreter: Annotated[str, msgspec.Meta(pattern="^/")]
    """As the installer reports it; before a runner starts, `store.select` looks again."""
    seconds: Annotated[float, msgspec.Meta(ge=0, lt=1e9)]


class Failed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    error: str
    words: str
    """pip's last ones, if it had any."""
    outage: bool
    """The network, the disk or the time: the same requirements may be installable later."""


InstallResult = Installed | Failed


def to_line(result: InstallResult) -> str:
    return msgspec.json.encode(result).decode()


def read_result(stdout: bytes, returncode: int) -> InstallResult:
    """Never raises."""
    lines = stdout[-MAX_BYTES:].decode(errors="replace").strip().splitlines()
    found = _parse(lines[-1]) if lines else None
    if isinstance(found, Failed) or (found and returncode == 0):
        return found
    how = f"signal {-returncode}" if returncode < 0 else f"status {returncode}"
    error = f"the installer ended with {how} and reported {'success' if found else 'no result'}"
    return Failed(error, "" if found else clean("\n".join(lines)), outage=returncode < 0)


def clean(text: str) -> str:
    """The last lines, each bounded, without what a terminal would obey."""
    # All lines together: a key may have several.
    lines = [cut(_printable(line).rstrip(), LINE_CHARS) for line in redacted(_NO_TEXT.sub("", text)).splitlines()]
    return "\n".join([line for line in lines if line][-WORDS_LINES:])


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _parse(line: str) -> InstallResult | None:
    with contextlib.suppress(ValueError, RecursionError):
        failed = msgspec.json.decode(line, type=Failed)
        return Failed(redacted_and_cut(_printable(failed.error), ERROR_CHARS), clean(failed.words), failed.outage)
    with contextlib.suppress(ValueError, RecursionError):
        installed = msgspec.json.decode(line, type=Installed)
        return installed if installed.interpreter.isprintable() else None
    return None
