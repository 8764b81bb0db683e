"""The lines of `logs/bootstrap.log` (DESIGN §5): `<time> <word> <branch> <commit> <boot-id> [key=value …]`.

The runner writes them, the watcher and the PM read them. A line that does not parse is nobody's evidence."""

from __future__ import annotations

import os
import re
import urllib.parse
from typing import NamedTuple

BOOTSTRAPPING = "BOOTSTRAPPING"
SUCCESS = "SUCCESS"
FAILED = "FAILED"
WORDS = (BOOTSTRAPPING, SUCCESS, FAILED)


class BootLine(NamedTuple):
    time: str
    word: str
    branch: str
    commit: str
    boot_id: str
    details: dict[str, str] = {}


def format_line(line: BootLine) -> str:
    """One line with its newline. Detail values are percent-encoded where they hold spaces or control characters."""
    head = " ".join((line.time, line.word, line.branch, line.commit, line.boot_id))
    details = "".join(f" {key}={urllib.parse.quote(value, safe=_PLAIN)}" for key, value in line.details.items())
    return head + details + "\n"


_PLAIN = "!#$&'()*+,-./:;<=>?@[]_{|}~"
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (BOOTSTRAPPING|SUCCESS|FAILED) (\S+) ([0-9a-f]{40}|-) ([0-9a-f]{32})"
    r"((?: [a-z_]+=\S*)*)"
)


def parse_line(text: str) -> BootLine | None:
    """The line, or None when it is not whole and well formed."""
    match = _LINE.fullmatch(text.rstrip("\n"))
    if match is None:
        return None
    time, word, branch, commit, boot_id, rest = match.groups()
    pairs = (item.split("=", 1) for item in rest.split())
    return BootLine(time, word, branch, commit, boot_id, {key: urllib.parse.unquote(value) for key, value in pairs})


def append_line(path: str, line: BootLine) -> None:
    """Append in one write, so that two writers never mix their lines. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        os.write(descriptor, format_line(line).encode())
    finally:
        os.close(descriptor)
