"""The logs of one agent as one stream: the watcher's, the doors', and each checkout's boot log and error log.

A line without a time of its own (a traceback, a program's output) belongs to the line above it in its file, and
takes its time. What lies in a checkout was written by the agent."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from host.display import LINE_CHARS
from infra.shared.clock import timestamp
from infra.shared.clones import with_clones
from infra.shared.paths import BOOT_LOG, ERROR_LOG, Paths
from infra.shared.safe_files import Below, Piece
from infra.shared.secret_shapes import redacted, redacted_value

WATCHER, DOORS, RUNNER, BOOT = "watcher", "doors", "runner", "boot"

TAIL_BYTES = 1 << 20
"""Of each file, so much is looked at."""
FOLLOW_SECONDS = 0.25

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?:Z|\+00:00)")
_TIME_KEYS = ("timestamp", "time", "at")


class Line(NamedTuple):
    """One line of a log."""

    time: str
    source: str
    branch: str
    """Empty for the keep's own."""
    text: str
    event: dict[str, Any] | None
    """The line's own fields when it is a JSON object."""


class File(NamedTuple):
    """One log file: where it is, and whose."""

    root: str
    path: str
    source: str
    branch: str

    def piece(self, start: int | None = None, older: str = "") -> Piece | None:
        return Below(self.root).piece(self.path + older, TAIL_BYTES, start)


def files(places: Paths, source: str) -> list[File]:
    """The log files there are now, of one source or of `all`."""
    found = [File(places.var, "watcher.log", WATCHER, ""), File(places.var, "doors.log", DOORS, "")]
    if source not in (WATCHER, DOORS):
        for branch in with_clones(Below(places.bot))[0]:
            for log, of in ((ERROR_LOG, RUNNER), (BOOT_LOG, BOOT)):
                found.append(File(places.bot, f"{branch}/minifram/{log}", of, branch))
    return [file for file in found if source in (file.source, "all")]


def last_lines(places: Paths, source: str, count: int) -> list[Line]:
    """The last `count` lines of all logs, by time."""
    return _newest((_tail_lines(file, file.piece())[0] for file in files(places, source)), count)


def follow_lines(places: Paths, source: str, count: int, pause: Callable[[float], None] = time.sleep) -> Iterator[Line]:
    """The last lines, then every new one as it is written, for ever. A replaced file is read from its start."""
    seen: dict[File, Piece] = {}
    rest: dict[File, bytes] = {}
    old = []
    for file in files(places, source):
        if piece := file.piece():
            lines, rest[file] = _tail_lines(file, piece, whole_lines=True)
            seen[file] = piece._replace(content=b"")
            old.append(lines[-count:] if count else [])
    yield from _newest(old, count)
    while True:
        new: list[Line] = []
        for file in files(places, source):
            fresh = _fresh(file, seen.get(file))
            if fresh is None:
                continue
            seen[file] = fresh[1]._replace(content=b"")
            whole, newline, rest[file] = (rest.get(file, b"") + fresh[0]).rpartition(b"\n")
            if len(rest[file]) > TAIL_BYTES:  # a line without an end must not fill our memory
                whole, newline, rest[file] = rest[file], b"\n", b""
            new += _lines(file, whole + newline, timestamp(fresh[1].modified))
        yield from _newest([new], len(new))
        pause(FOLLOW_SECONDS)


def _tail_lines(file: File, piece: Piece | None, whole_lines: bool = False) -> tuple[list[Line], bytes]:
    """The lines at the end of a file, and with `whole_lines` what stands behind the last newline."""
    if piece is None:
        return [], b""
    content, rest = piece.content, b""
    if piece.end > TAIL_BYTES:  # then the first line is not whole
        content = content.partition(b"\n")[2]
    if whole_lines:
        before, newline, rest = content.rpartition(b"\n")
        content = before + newline
    return _lines(file, content, timestamp(piece.modified)), rest


def _fresh(file: File, before: Piece | None) -> tuple[bytes, Piece] | None:
    """What was written since `before`, and the piece to go on from. A log that was moved aside is finished first."""
    piece = file.piece(before.end if before else 0)
    if piece is None or before is None or piece.identity == before.identity:
        return (piece.content, piece) if piece else None
    moved = file.piece(before.end, ".1")
    end = moved.content if moved and moved.identity == before.identity else b""
    piece = file.piece(0)
    return (end + piece.content, piece) if piece else None


def _newest(found: Iterator[list[Line]] | list[list[Line]], count: int) -> list[Line]:
    some = (line for lines in found for line in (lines[-count:] if count else []))
    ordered = sorted(some, key=lambda line: line.time)  # stable: lines of one file stay in its order
    return ordered[-count:] if count else []


def _lines(file: File, content: bytes, fallback: str) -> list[Line]:
    found: list[Line] = []
    last = ""
    # What writes them redacts; an agent's own code, or an earlier version of ours, may not.
    for raw in redacted(content.decode(errors="replace")).split("\n"):
        if not raw.strip():
            continue
        text = raw.rstrip("\r")[:LINE_CHARS] + (" … (cut)" if len(raw) > LINE_CHARS else "")
        event = _event(raw)
        if event is not None and (shown := redacted_value(event)) != event:
            event, text = shown, json.dumps(shown)
        last = _time_of(raw, event) or last
        found.append(Line(last, file.source, file.branch, text, event))
    # What stands before the first time in a file is no newer than that.
    first = next((line.time for line in found if line.time), fallback)
    return [line if line.time else line._replace(time=first) for line in found]


def _event(text: str) -> dict[str, Any] | None:
    if not text.startswith("{") or len(text) > LINE_CHARS:
        return None
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _time_of(text: str, event: dict[str, Any] | None) -> str:
    stated = text[:40]
    if event is not None:
        stated = next((str(event[key]) for key in _TIME_KEYS if key in event), "")
    if match := _TIME.match(stated):
        # Logs write times with three or six decimals; cut to ours, so that they sort as text.
        whole, _, fraction = match[1].partition(".")
        return f"{whole}.{(fraction + '000')[:3]}Z"
    return ""
