"""The log of the mind's events: append-only, because the keep alone can write there. The runner tells of each act, and
the keep adds when it was told, the event's number, and whose pages the run had been served by then.

Nothing is synced: a power cut may take the last half minute of events, and the log goes on behind what is left."""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from infra.keep.taint import served
from infra.shared.clock import began, timestamp
from infra.shared.mind.event import MindEvent, event_files, logged_on, name_of
from infra.shared.paths import Paths
from infra.shared.requests import MAX_ORIGINS, Recorded
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_value

LAST_DAYS = 2
"""Files, by name, in which the last number is looked for."""


class EventLog:
    """Of one agent. Raises OSError."""

    def __init__(self, places: Paths) -> None:
        self._places = places
        self._lock = threading.Lock()
        os.makedirs(places.events, mode=0o755, exist_ok=True)
        events = Below(places.events)
        lines = (line for name in event_files(events)[-LAST_DAYS:] for line in logged_on(events, name))
        self._last = max((line.event.seq for line in lines), default=0)

    def append(self, told: Sequence[dict[str, Any]], now: float) -> Recorded:
        """All of them or none. Without events it says whether the log can be written. Raises ValueError for what is no
        event, and OSError."""
        with self._lock:
            at, last = timestamp(now), self._last
            origins = functools.cache(lambda run: self._origins(run, now))  # of all events of a step: the trace is long
            lines = list[bytes]()
            for last, fields in enumerate(told, self._last + 1):
                event = msgspec.convert(redacted_value(fields), MindEvent)
                metadata = msgspec.structs.replace(event.metadata, origins=origins(event.run_id))
                event = msgspec.structs.replace(event, timestamp=at, seq=last, metadata=metadata)
                lines.append(msgspec.json.encode(event) + b"\n")
            _append(f"{self._places.events}/{name_of(at)}", b"".join(lines))
            self._last = last
        return Recorded(last, at)

    def _origins(self, run: str, now: float) -> tuple[str, ...]:
        """What was served since the run began; of a run whose name does not say when, all that is on record."""
        if not run:
            return ()
        since = began(run) or 0.0
        pages = served(self._places.web_trace, now, since)
        return tuple(dict.fromkeys(page.origin for page in reversed(pages) if page.at >= since))[:MAX_ORIGINS]


def _append(path: str, lines: bytes) -> None:
    """A line that a power cut tore stays as it is; the next one is not glued to it."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        torn = b"\n" if lines and size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
        if os.write(descriptor, torn + lines) != len(torn + lines):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
