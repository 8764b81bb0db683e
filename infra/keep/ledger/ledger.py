"""The ledger, `ledger.jsonl`: one JSON object a line, an `opened` line before a call and a `settled` line after it,
each appended in one write and on the disk before anybody acts on it.

It holds no word of any conversation, and each line is chained to the one before it (`chain`). A line torn by a power
cut is passed over and left where it is; nothing that was ever written is changed. What the lines mean for a budget is
`budget`'s to say."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec

from infra.keep.ledger.budget import Budget, Cost, opened, settled
from infra.keep.ledger.chain import linked
from infra.keep.ledger.prices import nano_dollars
from infra.shared.conversation import Usage
from infra.shared.files import sync_directory
from infra.shared.labels import TASK

_BLOCK = 1 << 20
Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""The file may come from a stranger's archive, and what a line takes may not be less than nothing: it would be a budget
that the PM never gave. A line beyond these bounds is read as a torn one is."""


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="opened"):
    """A call that is about to be made, and what it could take."""

    time: str
    day: str
    """The UTC day that the call counts on, its end as well."""
    id: str
    provider: str
    model: str
    worst_usd: Dollars
    worst_tokens: Tokens
    run: str = ""
    """As the runner names the run that it belongs to; nothing is counted by it."""
    label: str = TASK
    """What the call is for, by the runner's word (`labels`)."""
    chain: str = ""
    """Over this line and the one before it; filled in by who appends."""


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="settled"):
    """A call's end."""

    time: str
    day: str
    id: str
    provider: str
    model: str
    input_tokens: Tokens
    output_tokens: Tokens
    cache_write_tokens: Tokens
    cache_read_tokens: Tokens
    usd: Dollars
    duration_ms: int
    stop_reason: str | None = None
    error: str | None = None
    """A type of `conversation.ERROR_TYPES` when there was no completion."""
    run: str = ""
    measured: bool = True
    """False: the provider never said what it charges, so the worst that it can be is written."""
    label: str = TASK
    chain: str = ""
    """As above."""

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.cache_write_tokens, self.cache_read_tokens)


Line = Opened | Settled


class Ledger:
    """The file, open for appending. Not for two threads at once, but for `sync`."""

    def __init__(self, path: str, fsync: Callable[[int], None] = os.fsync) -> None:
        """Open or make it. Raises OSError."""
        self._fsync = fsync
        self._syncing = threading.Lock()
        self._failed_syncs = 0
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        sync_directory(os.path.dirname(path))
        size = os.fstat(self._descriptor).st_size
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        self._head = _head(self._descriptor)

    def append(self, line: Line) -> None:
        """On the disk when this returns. Raises OSError; then nobody may act on the line, though it or a part of it may
        stand in the file."""
        failed = self._failed_syncs
        self.write(line)
        self.sync()
        if self._failed_syncs > failed:  # the kernel tells a failure once: to another's sync, of our line too
            raise OSError(f"{self._path} may not be on the disk: a sync beside this one failed")

    def write(self, line: Line) -> None:
        """For a line that makes nothing possible that was not: a power cut may take it until `sync`. Raises OSError."""
        encoded, head = linked(msgspec.json.encode(line), self._head)
        content = (b"\n" if self._torn else b"") + encoded + b"\n"
        self._torn = True
        written = os.write(self._descriptor, content)
        if written >= len(content) - 1:  # a reader takes it as whole, even without its end of line
            self._head = head
        if written < len(content):
            raise OSError(f"{self._path} took {written} of {len(content)} bytes; is the disk full?")
        self._torn = False

    def sync(self) -> None:
        """Beside other threads, too. Raises OSError."""
        with self._syncing:
            try:
                self._fsync(self._descriptor)
            except OSError:
                self._failed_syncs += 1
                raise

    def close(self) -> None:
        os.close(self._descriptor)

    def budget(self, day: str, limit: int) -> Budget:
        """What the lines of `day` come to. Raises OSError."""
        with open(self._path, "rb") as file:
            return replay(lines_of_day(file.fileno(), day), day, limit)

    def day(self, day: str) -> list[Line]:
        """The lines of `day`. Raises OSError."""
        with open(self._path, "rb") as file:
            return lines_of_day(file.fileno(), day)


def _head(descriptor: int) -> str:
    """The chain's end: the hash in the last line that is whole and has one."""
    for content in _lines_from_end(descriptor):
        line = line_of(content)
        if line and line.chain:
            return line.chain
    return ""


def line_of(content: bytes) -> Line | None:
    """None for what no door wrote, or not to its end."""
    try:
        return msgspec.json.decode(content, type=Line)  # type: ignore[no-any-return]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def opening_cost(line: Opened) -> Cost:
    return Cost(nano_dollars(line.worst_usd), line.worst_tokens)


def settled_cost(line: Settled) -> Cost:
    return Cost(nano_dollars(line.usd), sum(line.usage))


def replay(lines: list[Line], day: str, limit: int) -> Budget:
    """The budget that these lines lead to, oldest first; those of other days are passed over."""
    budget = Budget(day, limit)
    for line in lines:
        if line.day == day:
            budget = replayed(budget, line)
    return budget


def replayed(budget: Budget, line: Line) -> Budget:
    """The budget after one more line."""
    match line:
        case Opened():
            return opened(budget, line.id, opening_cost(line))
        case Settled():
            return settled(budget, line.id, settled_cost(line), line.error is not None)


def lines_of_day(descriptor: int, day: str) -> list[Line]:
    """The lines of `day`, oldest first. Reads from the end and stops where lines are two days older.

    The slack is for clocks that were put back, which leaves days out of order."""
    enough = (datetime.date.fromisoformat(day) - datetime.timedelta(days=1)).isoformat()
    found: list[Line] = []
    for content in _lines_from_end(descriptor):
        line = line_of(content)
        if line is None:
            continue
        if line.day < enough:
            break
        if line.day == day:
            found.append(line)
    return found[::-1]


def _lines_from_end(descriptor: int) -> Iterator[bytes]:
    position = os.fstat(descriptor).st_size
    rest = b""
    while position > 0:
        start = max(0, position - _BLOCK)
        rest = os.pread(descriptor, position - start, start) + rest
        position = start
        first, *complete = rest.split(b"\n")
        yield from reversed(complete)
        rest = first if len(first) < _BLOCK else b""  # no line of ours is so long
    yield rest
