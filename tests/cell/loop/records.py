"""A run as its record has it."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
from collections.abc import Iterable, Iterator

import msgspec

from infra.cell.loop.record import Entered, Line, Opened, parse
from infra.shared.boot import TOOLS
from infra.shared.conversation import Message, Request, Text

OPENING = Request(("You are.",), (Message("user", (Text("Continue."),)),), (), "run-1")
MOST_STEPS = 12


def as_lines(happenings: Iterable[Line], acts: str = TOOLS) -> list[Line]:
    """Behind its opening, as they are read again from a file."""
    told = (each for each in happenings if not isinstance(each, Entered))
    return parse(as_file([Opened(OPENING, acts, most_steps=MOST_STEPS), *told]))


def as_file(lines: Iterable[Line]) -> bytes:
    return b"".join(json.dumps(msgspec.to_builtins(line)).encode() + b"\n" for line in lines)


@contextlib.contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """No file may be larger, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
