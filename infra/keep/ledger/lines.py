"""The ledger, `ledger.jsonl`: one JSON object a line, an `opened` line before a call and a `settled` line after it,
each appended in one write. An `opened` line is on the disk before its call is made; a `settled` one comes to it with
the next call's.

It holds no word of any conversation. A line torn by a power cut is passed over and left where it is; nothing that was
ever written is changed. What the lines mean for a budget is `budgets`' to say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated

import msgspec

from infra.keep.ledger.prices import nano_dollars
from infra.shared.conversation import TASK, Usage
from infra.shared.files import sync

Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""The file may come from a stranger's archive, and what a line takes may not be less than nothing: it would be a budget
that the PM never gave. A line beyond these bounds is read as a torn one is."""


class OfCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """What both lines of a call say."""

    time: str
    day: str
    """The UTC day that the call counts on, its end as well."""
    id: str
    provider: str
    model: str
    run: str = ""
    """As the runner names the run that it belongs to; nothing is counted by it."""
    label: str = TASK
    """What the call is for, by the runner's word (`labels`)."""


class Opened(OfCall, frozen=True, kw_only=True, tag="opened"):
    """A call that is about to be made, and what it could take."""

    worst_usd: Dollars
    worst_tokens: Tokens

    @property
    def nano_usd(self) -> int:
        """At worst."""
        return nano_dollars(self.worst_usd)


class Settled(OfCall, frozen=True, kw_only=True, tag="settled"):
    """A call's end."""

    input_tokens: Tokens
    output_tokens: Tokens
    cache_write_tokens: Tokens
    cache_read_tokens: Tokens
    usd: Dollars
    duration_ms: int
    stop_reason: str | None = None
    error: str | None = None
    """A type of `conversation.ERROR_TYPES` when there was no completion."""
    measured: bool = True
    """False: the provider never said what it charges, so the worst that it can be is written."""

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.cache_write_tokens, self.cache_read_tokens)

    @property
    def nano_usd(self) -> int:
        return nano_dollars(self.usd)


Line = Opened | Settled


class Ledger:
    """The file, open for appending. Not for two threads at once."""

    def __init__(self, path: str) -> None:
        """Open or make it. Raises OSError."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        sync(os.path.dirname(path))
        size = os.fstat(self._descriptor).st_size
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    def append(self, line: Line) -> None:
        """An opened call is on the disk when this returns; a power cut may take one that was settled. Raises OSError;
        then nobody may act on the line, though it may stand there."""
        content = (b"\n" if self._torn else b"") + msgspec.json.encode(line) + b"\n"
        self._torn = True
        written = os.write(self._descriptor, content)
        if written < len(content):
            raise OSError(f"{self._path} took {written} of {len(content)} bytes; is the disk full?")
        self._torn = False
        if isinstance(line, Opened):
            os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def day(self, day: str) -> list[Line]:
        """The lines of `day`. Raises OSError."""
        with open(self._path, "rb") as file:
            return lines_of_day(file, day)


def line_of(content: bytes) -> Line | None:
    """None for a foreign or torn line."""
    try:
        return msgspec.json.decode(content, type=Line)  # type: ignore[no-any-return]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def lines_of_day(ledger: Iterable[bytes], day: str) -> list[Line]:
    """The lines of `day` in the order of the file."""
    found = (line_of(content) for content in ledger if day.encode() in content)
    return [line for line in found if line and line.day == day]
