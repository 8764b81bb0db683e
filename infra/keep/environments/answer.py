"""What the installer says at its end: one line of JSON on stdout. It ran as the cell, so the watcher takes whatever is
there for input: any bytes and any status lead to one of two values, with bounded words."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

MAX_BYTES = 64 * 1024
WORDS_LINES = 20
LINE_CHARS = 300
ERROR_CHARS = 500
_NO_TEXT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Installed(NamedTuple):
    interpreter: str
    """As the installer says; who starts a runner asks `shelf.look` again."""
    seconds: float


class Failed(NamedTuple):
    error: str
    words: str
    """pip's last ones, if it had any."""
    outage: bool
    """The network, the disk or the time: the same requirements may well be installed later."""


Answer = Installed | Failed


def say(answer: Answer) -> str:
    """The line, without its newline."""
    return json.dumps(answer._asdict())


def read_answer(stdout: bytes, returncode: int) -> Answer:
    """Whatever it was, one of the two."""
    lines = stdout[-MAX_BYTES:].decode(errors="replace").strip().splitlines()
    said = _parse(lines[-1]) if lines else None
    if isinstance(said, Failed):
        return said
    if returncode == 0 and said:
        return said
    how = f"signal {-returncode}" if returncode < 0 else f"status {returncode}"
    error = f"the installer ended with {how} and said {'that all is well' if said else 'nothing that is an answer'}"
    return Failed(error, "" if said else clean("\n".join(lines)), outage=returncode < 0)


def clean(text: str) -> str:
    """The last lines, each bounded, with nothing in them that a terminal would obey."""
    lines = [_printable(line)[:LINE_CHARS].rstrip() for line in _NO_TEXT.sub("", text).splitlines()]
    return "\n".join([line for line in lines if line][-WORDS_LINES:])


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _parse(line: str) -> Answer | None:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    return _installed(raw) if raw.keys() == set(Installed._fields) else _failed(raw)


def _installed(raw: dict[str, Any]) -> Installed | None:
    interpreter, seconds = raw["interpreter"], raw["seconds"]
    if not isinstance(interpreter, str) or not interpreter.startswith("/") or not interpreter.isprintable():
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        return None
    return Installed(interpreter, float(min(seconds, 1e9)))


def _failed(raw: dict[str, Any]) -> Failed | None:
    if raw.keys() != set(Failed._fields):
        return None
    error, words, outage = raw["error"], raw["words"], raw["outage"]
    if not isinstance(error, str) or not isinstance(words, str) or not isinstance(outage, bool):
        return None
    return Failed(_printable(error)[:ERROR_CHARS], clean(words), outage)
