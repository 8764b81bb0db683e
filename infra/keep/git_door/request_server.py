"""The git door's request socket: one connection is one request and one reply, a line of JSON each.

One thread reads all connections without waiting for any of them, a few others answer. So a client that sends half a
line, or does not read its reply, costs a place for some seconds and never a thread, and when the places run out the
connection that has waited longest for its own client goes."""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from infra.shared.requests import MAX_BYTES, Later, Refused, Reply, Request, RequestError, encode_reply, parse_request

MAX_READING = 64
"""Connections whose request is not whole yet."""
MAX_WAITING = 64
"""Requests that are whole and not yet answered."""
THREADS = 4
PATIENCE_SECONDS = 10.0
"""A client has so long to send its request, and so long to read the reply."""

Answer = Callable[[Request], Reply]


class RequestServer:
    """Serves from `start` to `stop`. The listening socket stays its owner's."""

    def __init__(self, server: socket.socket, answer: Answer, log: FilteringBoundLogger, patience: float) -> None:
        self._server, self._answer, self._log, self._patience = server, answer, log, patience
        self._reading: dict[socket.socket, _Half] = {}  # oldest first
        self._whole: queue.Queue[tuple[socket.socket, bytes] | None] = queue.Queue(MAX_WAITING)
        self._ready = selectors.DefaultSelector()
        self._alarm, self._waker = socket.socketpair()
        server.setblocking(False)
        self._ready.register(server, selectors.EVENT_READ)
        self._ready.register(self._alarm, selectors.EVENT_READ)
        # Daemons: an answer that hangs in git must not keep the door from ending.
        self._threads = [
            threading.Thread(target=target, name=f"requests-{at}", daemon=True)
            for at, target in enumerate([self._read_all, *[self._answer_all] * THREADS])
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """End the threads; a request that is being answered has so long."""
        self._waker.send(b"!")
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for end in (self._alarm, self._waker):
            end.close()

    def _read_all(self) -> None:
        while True:
            for key, _ in self._ready.select(self._next_deadline()):
                if key.fileobj is self._alarm:
                    self._end()
                    return
                if key.fileobj is self._server:
                    self._welcome()
                elif isinstance(key.fileobj, socket.socket):
                    self._read(key.fileobj)
            now = time.monotonic()
            for client in [each for each, half in self._reading.items() if half.deadline <= now]:
                self._let_go(client)

    def _next_deadline(self) -> float | None:
        if not self._reading:
            return None
        return max(0.0, next(iter(self._reading.values())).deadline - time.monotonic())

    def _end(self) -> None:
        for client in list(self._reading):
            self._let_go(client)
        for _ in range(THREADS):
            with contextlib.suppress(queue.Full):  # those who answer meanwhile are daemons
                self._whole.put_nowait(None)
        self._ready.close()

    def _welcome(self) -> None:
        for _ in range(MAX_READING):  # all who wait, but nobody may keep the thread at it
            try:
                client, _ = self._server.accept()
            except OSError:  # nobody waits, or there are no more descriptors: there is a next look
                return
            client.setblocking(False)
            self._reading[client] = _Half(time.monotonic() + self._patience)
            self._ready.register(client, selectors.EVENT_READ)
            self._read(client)  # what is there already counts before anyone goes
            if len(self._reading) > MAX_READING:
                self._let_go(next(iter(self._reading)))

    def _read(self, client: socket.socket) -> None:
        half = self._reading.get(client)
        if half is None:
            return
        try:
            part = client.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        half.line += part
        if not part or len(half.line) > MAX_BYTES:
            self._let_go(client)
        elif half.line.endswith(b"\n"):
            self._forget(client)
            try:
                self._whole.put_nowait((client, bytes(half.line)))
            except queue.Full:
                _reply(client, _TOO_MANY, 0.0)

    def _let_go(self, client: socket.socket) -> None:
        if client in self._reading:
            self._forget(client)
            client.close()

    def _forget(self, client: socket.socket) -> None:
        del self._reading[client]
        self._ready.unregister(client)

    def _answer_all(self) -> None:
        while (waiting := self._whole.get()) is not None:
            client, line = waiting
            _reply(client, self._reply_to(line), self._patience)

    def _reply_to(self, line: bytes) -> bytes:
        """The reply, encoded: one that is too long for a line must not end the thread either."""
        try:
            return encode_reply(self._answer(parse_request(line)))
        except RequestError as error:
            return encode_reply(Refused(str(error)))
        except Exception as error:
            self._log.exception("request.failed")
            return encode_reply(Later(f"the git door met {type(error).__name__}; its log, doors.log, has more"))


class _Half:
    """A connection whose request is not whole."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.line = bytearray()


_TOO_MANY = encode_reply(Later("the git door has too many requests waiting; try again in a moment"))


def _reply(client: socket.socket, line: bytes, patience: float) -> None:
    with client, contextlib.suppress(OSError):
        client.settimeout(patience)
        client.sendall(line)
