"""Events on their way to the keep, which holds the log: those of a step are sent together. What could not be sent waits
in this process, and goes with the next step's."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from infra.shared.door import encoded
from infra.shared.mind.event import MindEvent
from infra.shared.requests import MAX_BYTES, MAX_EVENTS, Recorded

MOST_BYTES = MAX_BYTES // 2
"""Of one request, before the keep's own words in it."""
MOST_WAITING = 10_000
SECONDS = 60.0
"""So long a run goes on while nobody takes its events."""

Record = Callable[[Sequence[dict[str, Any]]], Recorded]
"""Hands events to the keep. Raises OSError when that may succeed later."""


class Outbox:
    """Of one mind, in this process."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._waiting = list[bytes]()
        self._since: float | None = None
        """When the first send failed of those that failed one behind the other."""
        self._monotonic = monotonic

    def put(self, event: MindEvent) -> None:
        """Details that JSON cannot hold, or that are too long, are left out, and the event says so."""
        try:
            line = encoded(event)
            why = f"they have {len(line)} bytes" if len(line) > MOST_BYTES else ""
            msgspec.json.decode(line)
        except (ValueError, RecursionError) as error:
            why = str(error)[:400]
        if why:
            metadata = msgspec.structs.replace(event.metadata, details={"left_out": why})
            line = encoded(msgspec.structs.replace(event, metadata=metadata))
        self._waiting = [*self._waiting[1 - MOST_WAITING :], line]

    def send(self, record: Record) -> None:
        """All that waits. Raises OSError when some of it still waits."""
        try:
            while self._waiting:
                batch = self._batch()
                record([msgspec.json.decode(line) for line in batch])
                del self._waiting[: len(batch)]
        except OSError:
            self._since = self._monotonic() if self._since is None else self._since
            raise
        self._since = None

    @property
    def is_late(self) -> bool:
        """Nothing has been taken for longer than a run may go on."""
        return self._since is not None and self._monotonic() - self._since > SECONDS

    def _batch(self) -> list[bytes]:
        size, batch = 0, list[bytes]()
        for line in self._waiting[:MAX_EVENTS]:
            size += len(line)
            if batch and size > MOST_BYTES:
                break
            batch.append(line)
        return batch


@functools.cache
def outbox_of(root: str) -> Outbox:
    """Of the mind at `root`: a run's and its duties' go one behind the other."""
    return Outbox()
