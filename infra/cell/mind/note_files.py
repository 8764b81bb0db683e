"""Notes that a shell left: `minifram-mind note` makes a file of each, and the runner takes it up behind the act as if
the tool `note` had been called."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

import msgspec

from infra.cell.loop.actions import ToolCall
from infra.cell.mind.notes import MOST_NOTES, NOTE
from infra.shared.mind import layout
from infra.shared.safe_files import Below

NOTES = f"{layout.SCRATCH}/notes"
MOST_BYTES = 1 << 14
"""Of one, as JSON: more than the tool takes."""
MOST_LISTED = 1000


def leave(root: str, given: Mapping[str, str]) -> None:
    """What the tool is to be given, for the mind at `root`. Raises OSError."""
    os.makedirs(f"{root}/{NOTES}", exist_ok=True)
    Below(root).write(f"{NOTES}/{time.time_ns()}-{os.getpid()}", msgspec.json.encode(given), durable=False)


def drop(root: str) -> None:
    """What is there is of an earlier run, which may have been shown what this one was not. Raises OSError."""
    if Below(root).status(NOTES):
        Below(root).remove(NOTES)


def taken(root: str) -> Iterator[ToolCall]:
    """What was left, the oldest first, and not more than a run may note: each is off the disk before it is given."""
    files = Below(root)
    try:
        names = sorted(name for name in files.names(NOTES, MOST_LISTED) if not name.startswith("."))
    except OSError:
        return
    for name in names[:MOST_NOTES]:
        try:
            given = msgspec.json.decode(files.whole(f"{NOTES}/{name}", MOST_BYTES), type=dict[str, str])
        except (OSError, ValueError):
            given = {}  # the tool says what is missing
        if files.unlink(f"{NOTES}/{name}"):
            yield ToolCall(name, NOTE, given)
