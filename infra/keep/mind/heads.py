"""Takes the head of the chain of events after each run (`shared.mind.heads` says what for), and says which it holds.
Append-only and synced: what was answered with Done is on the disk."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Sequence

from infra.shared.clock import timestamp
from infra.shared.door import Failure
from infra.shared.mind.heads import FILE, Head, add, line_of, read_heads
from infra.shared.requests import MAX_HEADS, AskHeads, Done, Heads, HeldHead, NoteHead

TAIL_BYTES = 1 << 20
"""Read of the file's end: some thousand runs. The last head stands there."""

MOST_BYTES = 64 << 20
"""Of the file: the cell says how often something is added."""

MOST_TORN = 100
"""Lines that power cuts tore, one behind the other."""

_one_at_a_time = threading.Lock()


def note(var: str, request: NoteHead, now: float) -> Done | Failure:
    """Refused when the chain went back, or one event of it has become another. Raises OSError."""
    path = f"{var}/{FILE}"
    with _one_at_a_time:
        last, size = _last_of(path)
        if problem := _problem(last, request):
            return Failure("refused", problem)
        if last and last.seq == request.seq and last.since <= request.since:  # a run without an event, or told twice
            return Done("")
        if size > MOST_BYTES:
            return Failure(
                "refused",
                f"{path} has over {MOST_BYTES:,} bytes, more than runs fill in a life; the PM looks why, and "
                "moves it away while the agent is down",
            )
        add(var, line_of(Head(request.run, request.seq, request.hash, timestamp(now), request.since)))
    return Done("")


def held(var: str, request: AskHeads) -> Heads:
    """The newest ones, in their order. Raises OSError."""
    lines = _end_of(f"{var}/{FILE}", MOST_BYTES if request.below else TAIL_BYTES)[0].split(b"\n")
    end = bisect_left(range(len(lines)), request.below, key=lambda at: _seq_at(lines, at)) if request.below else None
    # A page for each 1,500 of many: not all of the file is read as JSON for each.
    found = read_heads(b"\n".join(lines[:end][-MAX_HEADS - MOST_TORN :]))
    return Heads(tuple(HeldHead(head.since, head.seq, head.hash) for head in found[-MAX_HEADS:]))


def noted_heads(var: str) -> list[Head]:
    """All of them. Raises OSError."""
    return read_heads(_end_of(f"{var}/{FILE}", MOST_BYTES)[0])


def _seq_at(lines: Sequence[bytes], at: int) -> int:
    """Of the head of this line, or of the one before where it is torn. They go up."""
    for line in reversed(lines[max(0, at - MOST_TORN) : at + 1]):
        if heads := read_heads(line):
            return heads[-1].seq
    return 0


def _last_of(path: str) -> tuple[Head | None, int]:
    """The head that counts, and the size of the file."""
    content, size = _end_of(path, TAIL_BYTES)
    found = read_heads(content)
    return found[-1] if found else None, size


def _end_of(path: str, most: int) -> tuple[bytes, int]:
    """So many bytes, and the size of the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", 0
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, most, max(0, size - most)), size
    finally:
        os.close(descriptor)


def _problem(last: Head | None, request: NoteHead) -> str:
    if last is None:
        return ""
    if request.seq < last.seq:
        return (
            f"the chain of events ends at {request.seq} and the keep has its head at {last.seq} (run {last.run}): "
            "events are missing. Tell the PM in your report; 'minifram doctor' shows which, and what to do"
        )
    if request.seq == last.seq and request.hash != last.hash:
        return (
            f"event {request.seq} is not the one that the keep has on record (run {last.run}): the chain was "
            "rewritten. Tell the PM in your report; 'minifram doctor' shows from where"
        )
    return ""
