"""The sender: looks at the records, remembers what is new, then sends what is due. One loop, one file of memory.

Order is all there is to it: what was seen is on the disk with what is to be sent of it, in one step, and that before
anything is sent. Killed at any moment, it begins again where the disk says; a letter may then go out twice, with the
same id."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from host.display import Say
from host.notify.delivery import Attempt
from host.notify.events import Fact, Seen, Sight, observe
from host.notify.letters import delivered, due, failed, noticed
from host.notify.state import Channel, Memory
from infra.shared.clock import timestamp
from infra.shared.notify_settings import NotifySettings

POLL_SECONDS, BUSY_SECONDS = 1.0, 0.05
LAST_SECONDS = 5.0
"""How long what is due may still be tried when the sender is asked to end."""

Deliver = Callable[[str, str], Attempt]
"""Begins an attempt to deliver a body through a channel. Raises OSError."""


class Watched(Protocol):
    """The records."""

    def look(self, seen: Seen, now: float) -> Sight: ...


class Kept(Protocol):
    """Where the memory is."""

    def write(self, memory: Memory) -> None:
        """Raises OSError."""


class Sender:
    def __init__(
        self,
        agent: str,
        notify: NotifySettings,
        memory: Memory,
        store: Kept,
        records: Watched,
        deliver: Deliver,
        say: Say,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._agent, self._notify, self._store, self._records = agent, notify, store, records
        self._deliver, self._say, self._clock = deliver, say, clock
        self._written = memory
        known = {name: memory.channels.get(name, Channel()) for name in notify.channels}
        self._memory = replace(memory, channels={name: _only(known[name], notify.on) for name in known})
        self._under_way: dict[tuple[str, str], Attempt] = {}
        """By channel and kind."""

    def run(self, is_over: Callable[[], bool]) -> None:
        """Until `is_over`; then what is due now gets one more moment."""
        until = None
        while until is None or (self._under_way and time.monotonic() < until):
            if until is None and is_over():
                until = time.monotonic() + LAST_SECONDS
            self.step()
            time.sleep(BUSY_SECONDS if self._under_way else POLL_SECONDS if until is None else 0)
        self.close()

    def close(self) -> None:
        """What is under way is ended; its letters are still due."""
        for attempt in self._under_way.values():
            attempt.give_up()

    def step(self) -> None:
        """One look, and whatever can be done without waiting. A full disk ends nothing: it is tried again."""
        now = self._clock()
        try:
            self._hear(now)
            seen, facts = observe(self._memory.seen, self._records.look(self._memory.seen, now), self._notify.on, now)
            channels = {name: self._with(each, facts, now) for name, each in self._memory.channels.items()}
            ready = {name: due(each.lanes, self._agent, _ids(each), now) for name, each in channels.items()}
            channels = {name: replace(each, lanes=ready[name][0]) for name, each in channels.items()}
            self._remember(Memory(seen, channels))
        except OSError as error:
            self._say(f"what was seen could not be written down, so nothing is sent: {error}")
            return
        for name, (lanes, kinds) in ready.items():
            for kind in kinds:
                lane = lanes[kind]
                if (name, kind) not in self._under_way and lane.letter:
                    self._begin(name, kind, lane.letter.body, now)

    def _with(self, channel: Channel, facts: Sequence[Fact], now: float) -> Channel:
        return replace(channel, lanes=noticed(channel.lanes, facts, now, self._notify.text)) if facts else channel

    def _begin(self, name: str, kind: str, body: str, now: float) -> None:
        try:
            self._under_way[name, kind] = self._deliver(name, body)
        except OSError as error:
            self._settle(name, kind, f"it could not be started: {error}", now)

    def _hear(self, now: float) -> None:
        """What became of the attempts. Raises OSError."""
        ended = {key: why for key, attempt in self._under_way.items() if (why := attempt.ended()) is not None}
        for (name, kind), why in ended.items():
            del self._under_way[name, kind]
            self._settle(name, kind, why, now)

    def _settle(self, name: str, kind: str, why: str, now: float) -> None:
        channel = self._memory.channels[name]
        lane = channel.lanes[kind]
        lanes = {**channel.lanes, kind: failed(lane, now) if why else delivered(lane, now)}
        if why:
            self._say(f"{name}: a notification ({kind}) was not delivered: {why}")
            channel = replace(channel, lanes=lanes, failed_at=timestamp(now), error=why)
        else:
            channel = replace(channel, lanes=lanes, succeeded_at=timestamp(now), error="")
        self._memory = replace(self._memory, channels={**self._memory.channels, name: channel})

    def _remember(self, memory: Memory) -> None:
        """Raises OSError."""
        if memory != self._written:
            self._store.write(memory)
            self._written = memory
        self._memory = memory


def _only(channel: Channel, on: Sequence[str]) -> Channel:
    """Without what the PM does not ask for any more."""
    return replace(channel, lanes={kind: lane for kind, lane in channel.lanes.items() if kind in on})


def _ids(channel: Channel) -> list[str]:
    return [os.urandom(16).hex() for _ in channel.lanes]
