"""Takes the head of the chain of events after each run (`shared.mind.heads` says what for), and says which it holds.
Append-only and synced: what was answered with Done is on the disk."""

from __future__ import annotations

import os
import threading

from infra.shared.clock import timestamp
from infra.shared.mind.heads import FILE, Head, add, line_of, read_heads, standing
from infra.shared.requests import MAX_HEADS, AskHeads, Done, Heads, HeldHead, NoteHead, Refused, Reply

TAIL_BYTES = 1 << 20
"""Read of the file's end: some thousand runs. The last head stands there."""

MOST_BYTES = 64 << 20
"""Of the file: the cell says how often something is added."""

_one_at_a_time = threading.Lock()


def note(var: str, request: NoteHead, now: float) -> Reply:
    """Refused when the chain went back, or one event of it has become another. Raises OSError."""
    path = f"{var}/{FILE}"
    with _one_at_a_time:
        last, size = _last_of(path)
        if problem := _problem(last, request):
            return Refused(problem)
        if last and last.seq == request.seq:  # a run without an event, or told twice
            return Done("")
        if size > MOST_BYTES:
            return Refused(f"{path} has over {MOST_BYTES:,} bytes, more than runs fill in a life; the PM looks why")
        add(var, line_of(Head(request.run, request.seq, request.hash, timestamp(now), request.since)))
    return Done("")


def held(var: str, request: AskHeads) -> Reply:
    """The newest ones that stand, in their order. Raises OSError."""
    found, _ = _standing(f"{var}/{FILE}", MOST_BYTES if request.below else TAIL_BYTES)
    below = [head for head in found if not request.below or head.seq < request.below]
    return Heads(tuple(HeldHead(head.since, head.seq, head.hash) for head in below[-MAX_HEADS:]))


def _last_of(path: str) -> tuple[Head | None, int]:
    """The head that counts, and the size of the file."""
    found, size = _standing(path, TAIL_BYTES)
    return found[-1] if found else None, size


def _standing(path: str, most: int) -> tuple[list[Head], int]:
    """Of so many bytes of the file's end; and the size of the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return [], 0
    try:
        size = os.fstat(descriptor).st_size
        return standing(read_heads(os.pread(descriptor, most, max(0, size - most)))), size
    finally:
        os.close(descriptor)


def _problem(last: Head | None, request: NoteHead) -> str:
    if last is None:
        return ""
    if request.seq < last.seq:
        return (
            f"the chain of events ends at {request.seq} and the keep has its head at {last.seq} (run {last.run}): "
            "events are missing. Tell the PM in your report; 'minifram events --verify' shows which, and what to do"
        )
    if request.seq == last.seq and request.hash != last.hash:
        return (
            f"event {request.seq} is not the one that the keep has on record (run {last.run}): the chain was "
            "rewritten. Tell the PM in your report; 'minifram events --verify' shows from where"
        )
    return ""
