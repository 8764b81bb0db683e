"""The git door's request socket: one connection is one request and one reply, a line of JSON each.

Each connection is read by a thread of its own, with a limit of time, and a few are answered at once. When too many send
their request slowly, the one that has waited longest for its own client is closed."""

from __future__ import annotations

import contextlib
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
"""Requests that are answered at once."""
CLIENT_SECONDS = 10.0
"""A client has so long to send its request, and so long to read the reply."""


class RequestServer:
    """Serves from `start` to `stop`. The listening socket stays its owner's."""

    def __init__(
        self,
        server: socket.socket,
        answer: Callable[[Request], Reply],
        log: FilteringBoundLogger,
        client_seconds: float = CLIENT_SECONDS,
    ) -> None:
        self._server, self._answer, self._log, self._client_seconds = server, answer, log, client_seconds
        self._reading: dict[socket.socket, None] = {}  # oldest first
        self._lock = threading.Lock()
        self._threads = threading.Semaphore(MAX_READING + MAX_WAITING + THREADS)
        self._room = threading.Semaphore(MAX_WAITING + THREADS)
        self._answering = threading.Semaphore(THREADS)
        self._stopping = False

    def start(self) -> None:
        # All threads are daemons: an answer that hangs in git must not keep the door from ending.
        threading.Thread(target=self._accept_all, name="requests", daemon=True).start()

    def stop(self, seconds: float = 2.0) -> None:
        """Take no more requests; those that are being answered have so long."""
        self._stopping = True
        self._server.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for client in self._reading:
                _hang_up(client)
        deadline = time.monotonic() + seconds
        for _ in range(THREADS):
            self._answering.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def _accept_all(self) -> None:
        self._server.setblocking(True)
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                if self._stopping:
                    return
                time.sleep(0.05)  # no more descriptors, for one: the clients that are served give theirs back
                continue
            with self._lock:
                self._reading[client] = None
                if len(self._reading) > MAX_READING:
                    oldest = next(iter(self._reading))
                    del self._reading[oldest]
                    _hang_up(oldest)
            # Clients may come faster than the threads end whose clients were closed.
            self._threads.acquire()
            try:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
            except RuntimeError:  # no more threads
                self._threads.release()
                self._forget(client)
                client.close()

    def _serve(self, client: socket.socket) -> None:
        try:
            self._attend(client)
        finally:
            self._threads.release()

    def _attend(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):  # the client is gone, or its time is up
            try:
                line = self._read(client)
            finally:
                self._forget(client)
            if not line:
                return
            client.settimeout(self._client_seconds)
            if not self._room.acquire(blocking=False):
                client.sendall(_TOO_MANY)
                return
            try:
                with self._answering:  # also while the client reads, so that slow ones are as few
                    client.sendall(self._reply_to(line))
            finally:
                self._room.release()

    def _read(self, client: socket.socket) -> bytes:
        """The request's line; empty for one that is too long or not whole. Raises OSError."""
        line, deadline = bytearray(), time.monotonic() + self._client_seconds
        while not line.endswith(b"\n"):
            client.settimeout(max(0.001, deadline - time.monotonic()))
            part = client.recv(1 << 16)
            line += part
            if not part or len(line) > MAX_BYTES:
                return b""
        return bytes(line)

    def _forget(self, client: socket.socket) -> None:
        with self._lock:
            self._reading.pop(client, None)

    def _reply_to(self, line: bytes) -> bytes:
        try:
            return encode_reply(self._answer(parse_request(line)))
        except RequestError as error:
            return encode_reply(Refused(str(error)))
        except Exception as error:
            self._log.exception("request.failed")
            return encode_reply(Later(f"the git door met {type(error).__name__}; its log, doors.log, has more"))


_TOO_MANY = encode_reply(Later("the git door has too many requests waiting; try again in a moment"))


def _hang_up(client: socket.socket) -> None:
    """The thread that reads it sees its end, and closes it."""
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
