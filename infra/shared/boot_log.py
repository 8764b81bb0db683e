"""The lines of `logs/bootstrap.log` (`SPEC_BOOT`): `<time> <word> <branch> <commit> <boot-id> [key=value …]`.

The runner writes them, and the watcher adds how each attempt ended (`BY`). The watcher and the PM read them. A line
that does not parse is nobody's evidence."""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

BOOTSTRAPPING = "BOOTSTRAPPING"
SUCCESS = "SUCCESS"
FAILED = "FAILED"
ENDED = "ENDED"
"""The watcher's word for a boot that had said SUCCESS."""
WORDS = (BOOTSTRAPPING, SUCCESS, FAILED, ENDED)
BY, WATCHER = "by", "watcher"
"""The detail of every line that the watcher wrote. None of them is evidence of what the runner said."""


class BootLine(NamedTuple):
    time: str
    word: str
    branch: str
    commit: str
    boot_id: str
    details: dict[str, str] = {}  # noqa: RUF012 - the type is immutable, and nobody changes its default
    """Keys of lower case letters and `_`."""


def format_line(line: BootLine) -> str:
    """One line with its newline. Detail values are percent-encoded where they hold spaces or control characters."""
    head = " ".join((line.time, line.word, line.branch, line.commit, line.boot_id))
    return head + "".join(f" {key}={_quoted(value)}" for key, value in line.details.items()) + "\n"


_LINE = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z) (BOOTSTRAPPING|SUCCESS|FAILED|ENDED) (\S+)"
    r" ([0-9a-f]{40}|-) ([0-9a-f]{32})((?: [a-z_]+=\S*)*)\n"
)


def parse_line(text: str) -> BootLine | None:
    """The line, or None when it is incomplete or malformed.

    A line without its newline may still be being written, or was cut by a full disk."""
    match = re.fullmatch(_LINE, text)  # compiled at first use: the runner only writes, and its start is measured
    if match is None:
        return None
    time, word, branch, commit, boot_id, rest = match.groups()
    pairs = (item.split("=", 1) for item in rest.split())
    return BootLine(time, word, branch, commit, boot_id, {key: _unquoted(value) for key, value in pairs})


def append_line(path: str, line: BootLine) -> None:
    """Append in one write, so that the lines of two writers never mix. Raises OSError, also after a partial write. An
    incomplete line of an earlier writer is terminated first."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        content = b"\n" * torn + format_line(line).encode()
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, "only a part of the line could be written", path)
    finally:
        os.close(descriptor)


# Percent-encoding as in URLs; `urllib.parse` costs the runner more than all of this module.
_PLAIN = frozenset(b"!#$&'()*+,-./:;<=>?@[]_{|}~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def _quoted(value: str) -> str:
    # Half of a surrogate pair becomes visible text: a failure must be told even if its words are strange.
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in value.encode(errors="backslashreplace"))


def _unquoted(value: str) -> str:
    plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), value.encode(errors="replace"))
    return plain.decode(errors="replace")
