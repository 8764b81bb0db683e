"""The files of events in a clone of the mind, for whoever reads them: the cell, the keep and the host alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing

from infra.cell.mind.event import MOST_LINE, START, SUFFIX, ChainTip, EventLine, each_event, lines_of
from infra.cell.mind.event_chain import tip_in
from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below, takes

MOST_FILES = 40_000
"""A century of days."""
TAILS = (1 << 16, 8 * MOST_LINE)
"""Bytes from the end in which a sound line is looked for."""
NEWEST = 3
LEAST_BYTES, SPARE = 100, 1_000_000
"""A chain is no longer than its files have room for, but for so many events whose files are gone: nobody goes on from a
line of another number, so that a line that was put in ends no counting."""
_NAME = re.compile(r"\d{4}-\d\d-\d\d" + re.escape(SUFFIX), re.ASCII)


def event_files(mind: Below, since: str = "") -> list[str]:
    """Paths below the mind's root, by the days of their names; from this day on. Raises OSError; for a directory that
    is missing there are none."""
    try:
        names = mind.names(EVENTS, MOST_FILES)
    except FileNotFoundError:
        return []
    return [f"{EVENTS}/{name}" for name in sorted(names) if _NAME.fullmatch(name) and name >= since]


def logged(mind: Below, since: str = "") -> Iterator[EventLine]:
    """All lines of the files from this day on, one at a time. Raises OSError when the directory cannot be read."""
    for path in event_files(mind, since):
        yield from logged_in(mind, path)


def logged_in(mind: Below, path: str, is_wanted: Callable[[bytes], bool] = bool) -> Iterator[EventLine]:
    """The lines of one file, one at a time; none of one that is missing. An EventLine 0 says why it cannot be read."""
    try:
        with closing(mind.opened(path)) as file:
            yield from each_event((line if is_wanted(line) else b"" for line in lines_of(file)), path)
    except FileNotFoundError:
        return
    except OSError as error:
        yield EventLine(path, 0, None, f"the file cannot be read ({error.strerror or error}); its events are left out")


def tip(mind: Below) -> ChainTip:
    """Where the chain ends: the event with the highest number among the last sound ones of the newest files, by name
    and by the time of their last change, as the clock may have been set back. Raises OSError."""
    paths = event_files(mind)
    there = {path: status for path in paths if (status := mind.status(path))}
    most = SPARE + sum(map(takes, there.values())) // LEAST_BYTES
    changed = {path: status.st_mtime_ns for path, status in there.items()}
    by_change = sorted(changed, key=changed.__getitem__)
    ordered = [*dict.fromkeys([*paths[-NEWEST:][::-1], *by_change[-NEWEST:][::-1]])]
    rest = [path for path in reversed(paths) if path not in ordered]
    found = [last for path in ordered if (last := last_in(mind, path, most))]
    found = found or [last for path in rest if (last := last_in(mind, path, most))][:1]
    return max(found, default=START)


def last_in(mind: Below, path: str, most_events: int) -> ChainTip | None:
    """The last event of a file that is what its hash says, of so many at most."""
    for most in TAILS:
        piece = mind.piece(path, most)
        if piece is None:
            return None
        if found := tip_in(piece.content.split(b"\n"), most_events):
            return found
        if len(piece.content) < most:
            return None
    return None


def ends_within_line(mind: Below, path: str) -> bool:
    """A power cut or a full disk has left half a line."""
    piece = mind.piece(path, 1)
    return piece is not None and piece.content not in (b"", b"\n")
