"""Reads files that others wrote: regular files alone, bounded, and JSON without what JSON does not have."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MOST_DIGITS = 20
_BLANKS = " \t\r\n"
LINE_BYTES = 64 << 20
"""Of one line: a longer one is left out, and told."""


class Unreadable(Exception):
    """A file is there and cannot be read; the text says why."""


def open_regular(path: Path) -> BinaryIO | None:
    """The file, or None when there is none. A link, a pipe or a device is not opened. Raises Unreadable."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise Unreadable(f"{path.name} cannot be opened: {why}") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise Unreadable(f"{path.name} is no regular file")
    return open(number, "rb")


def read_bounded(path: Path, most: int) -> bytes | None:
    """All bytes, or None when there is no such file. Raises Unreadable, also for a file of more than `most` bytes."""
    file = open_regular(path)
    if file is None:
        return None
    with file:
        content = file.read(most + 1)
    if len(content) > most:
        raise Unreadable(f"{path.name} has more than {most} bytes")
    return content


def bounded_lines(file: BinaryIO, most: int) -> Iterator[tuple[int, bytes | None]]:
    """The number of each line, from 1, and its bytes: None for one of more than LINE_BYTES. Ends after `most` bytes."""
    number = 0
    while most > 0:
        line = file.readline(LINE_BYTES + 1)
        if not line:
            return
        number += 1
        most -= len(line)
        if len(line) <= LINE_BYTES:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
            most -= len(line)
        yield number, None


def parse_json(content: bytes) -> Any:
    """The value. Raises ValueError for all that is no JSON, for NaN, for whole numbers of more than MOST_DIGITS digits,
    and for what is nested too deep."""
    text = content.decode().lstrip(_BLANKS)
    try:
        value, end = _DECODER.raw_decode(text, 0)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if text[end:].strip(_BLANKS):
        raise ValueError("more follows after the value")
    return value


def finite(value: object) -> float | None:
    """A number as a float; None for any other value, and for what is beyond all numbers, such as 1e999."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def whole(value: object) -> int | None:
    """A whole number; None for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits; expected at most {MOST_DIGITS}")
    return int(text)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_whole)
