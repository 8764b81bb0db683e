"""The doors' HTTP: a socket that listens already, and few connections that nobody can keep. Who connects is told by the
kernel. What is answered is each door's own business."""

from __future__ import annotations

import asyncio
import select
import signal
import socket
import struct
from collections import Counter
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

WAITING_SECONDS = 30.0
"""A connection has asked by then, and has taken its answer so long after it was given."""
MAX_CONNECTIONS = 64
ACCEPTED_AT_ONCE = 16
"""So many come in before those that came before are read; the others wait in the kernel's queue, which is fair."""
QUEUE = 64
"""So many wait in that line; who connects after them waits to get in it."""
READING_SECONDS = 0.1
"""What has come with a connection is read by then."""


def serve(
    app: Starlette,
    listening: socket.socket,
    when_ready: Callable[[], None] | None = None,
    waiting_seconds: float = WAITING_SECONDS,
) -> None:
    """Answer until a signal asks to leave; `when_ready` is called once the first answer can be given.

    `waiting_seconds`: how long a connection may take to ask, and to hear the answer."""
    config = _Config(
        app,
        loop="asyncio",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        backlog=ACCEPTED_AT_ONCE,
        http=_Connection,
    )
    config.waiting_seconds = waiting_seconds
    before = signal.getsignal(signal.SIGTERM)
    _Server(config, when_ready).run(sockets=[listening])
    signal.signal(signal.SIGTERM, before)  # asyncio leaves the default behind, which would end us amid the rest


class _Config(uvicorn.Config):
    waiting_seconds = WAITING_SECONDS


class _Server(uvicorn.Server):
    """Does not wait for its calls when it is asked to leave: one can take many minutes."""

    def __init__(self, config: uvicorn.Config, when_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:  # asyncio has made the queue as short as what it takes from it at once
            listening.listen(QUEUE)
        if self._when_ready:
            self._when_ready()

    async def main_loop(self) -> None:
        """Sleep until a signal comes. Uvicorn's own looks ten times a second whether one has come; what else it does
        there (the date, a limit of requests) is not in use here."""
        await self.on_tick(0)
        asked = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not by signal.signal, as uvicorn: one that comes just before the loop sleeps would not wake it.
            asyncio.get_running_loop().add_signal_handler(number, asked.set)
        if not self.should_exit:
            await asked.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self.server_state.tasks:
            task.cancel()
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """Limits the time between requests. When there are too many connections, those whose client has disconnected are
    closed, else the oldest of the client that has the most, unless a call is in progress on it. So one client cannot
    keep the others out."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began = self.loop.time()
        self._wire: socket.socket = transport.get_extra_info("socket")
        pid, uid = _peer(self._wire)
        self.caller = f"process {pid} of user {uid}"
        self.client = (self.caller, uid)
        self._limit = self.loop.call_later(self._seconds, self._leave_when_idle)
        there = [each for each in self.connections if isinstance(each, _Connection) and not each.is_leaving]
        if len(there) > MAX_CONNECTIONS:
            self._make_room(there)

    def _make_room(self, there: list[_Connection]) -> None:
        idle = [each for each in there if each is not self and not each.is_in_call]
        gone = [each for each in idle if each.is_gone]
        for each in gone:
            each.transport.abort()
        if not gone:
            having = Counter(each.caller for each in there)
            read_by = self.loop.time() - READING_SECONDS

            def goes_first(one: _Connection) -> tuple[int, bool, float]:
                return -having[one.caller], one._began > read_by, one._began

            min(idle, key=goes_first, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit.cancel()
        self._limit = self.loop.call_later(self._seconds, self._leave_when_idle)

    @property
    def is_leaving(self) -> bool:
        return self.transport.is_closing() and not self.transport.get_write_buffer_size()

    @property
    def is_gone(self) -> bool:
        """Nobody is left to hear an answer: the other end was closed (unix(7), POLLHUP), not only its sending half."""
        poll = select.poll()
        poll.register(self._wire.fileno(), 0)
        return bool(poll.poll(0))

    @property
    def is_in_call(self) -> bool:
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    @property
    def _seconds(self) -> float:
        return self.config.waiting_seconds if isinstance(self.config, _Config) else WAITING_SECONDS

    def _leave_when_idle(self) -> None:
        """Also while a request is not whole, or an answer not taken; a request under way has a limit of its own."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


def _peer(wire: socket.socket) -> tuple[int, int]:
    """Process and user that connected, as the kernel knows them (unix(7), SO_PEERCRED)."""
    pid, uid, _ = struct.unpack("3i", wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def caller_of(http: Request) -> tuple[str, int]:
    """Who asks: in words, and the user."""
    return (http.client.host, http.client.port) if http.client else ("", -1)


async def left_of(http: Request) -> None:
    """Until the client, whose request is complete, closes the connection."""
    while (await http.receive())["type"] != "http.disconnect":
        pass
