"""Tells each listener on the git socket where main is, and where the mind, if there is one: one line at once, one more
whenever one of them has moved.

One loop, one thread, nothing that blocks: a client that is slow, talks or is gone costs the others nothing and is
let go; it sees that, connects again, and gets the newest line at once."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from functools import partial

import structlog

from infra.keep.git_door.mainline import Signature, Unreadable, read_main, read_mind, signature

MAX_CLIENTS = 500
"""Well below the usual limit of 1024 open files; beyond it the oldest client is let go."""


class Notifier:
    def __init__(
        self,
        server: socket.socket,
        remote: str,
        poll_seconds: float,
        request_socket: str = "",
    ) -> None:
        """`request_socket`: where the door's other half listens; when it is gone, this one ends to be started again."""
        self._request_socket = request_socket
        self._server, self._remote, self._poll_seconds = server, remote, poll_seconds
        self._log = structlog.get_logger().bind(remote=remote)
        self._clients: dict[socket.socket, None] = {}  # a set in the order of coming
        self._main: str | None = None
        self._mind = ""
        self._seen: Signature | None = None
        self._unreadable = ""
        self._stopping = False
        self._alarm, self._waker = socket.socketpair()
        for end in (server, self._alarm, self._waker):
            end.setblocking(False)
        self._ready = selectors.DefaultSelector()
        self._ready.register(server, selectors.EVENT_READ, self._welcome)
        self._ready.register(self._alarm, selectors.EVENT_READ, self._hear_alarm)

    @property
    def waker(self) -> int:
        """The descriptor for `signal.set_wakeup_fd`."""
        return self._waker.fileno()

    def wake(self) -> None:
        """Have main looked at now. For any thread."""
        with contextlib.suppress(BlockingIOError):  # it is full of calls that say the same
            self._waker.send(b"!")

    def stop(self) -> None:
        """Let `run` return. For any thread, and for signal handlers."""
        self._stopping = True
        self.wake()

    def run(self) -> None:
        """Serve until `stop`. The listening socket stays its owner's."""
        while not self._stopping:
            self._look()
            for key, _ in self._ready.select(self._poll_seconds):
                key.data()

    def close(self) -> None:
        for end in (*self._clients, self._alarm, self._waker):
            end.close()
        self._ready.close()

    def _look(self) -> None:
        if self._request_socket and not os.path.exists(self._request_socket):
            self._log.error("door.socket_gone", socket=self._request_socket)
            self._stopping = True
        seen = signature(self._remote)
        if seen == self._seen:
            return
        try:
            main = read_main(self._remote)
        except Unreadable as trouble:
            self._seen = None  # look again each time
            if str(trouble) != self._unreadable:
                self._unreadable = str(trouble)
                self._log.error("main.unreadable", reason=str(trouble), next="repair it; until then nobody is woken")
            return
        if self._unreadable:
            self._unreadable = ""
            self._log.info("main.readable_again")
        self._seen = seen  # taken before reading: a move in between is seen at the next look
        mind = read_mind(self._remote)
        if (main, mind) != (self._main, self._mind):
            event = "main.moved" if main != self._main else "mind.moved"
            self._main, self._mind = main, mind
            for client in list(self._clients):
                self._tell(client)
            self._log.info(event, main=main, clients=len(self._clients), **({"mind": mind} if mind else {}))

    def _welcome(self) -> None:
        for _ in range(MAX_CLIENTS):  # all who wait, but nobody may keep the door at it
            try:
                client, _ = self._server.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            client.setblocking(False)
            if len(self._clients) >= MAX_CLIENTS:
                self._let_go(next(iter(self._clients)))
            self._clients[client] = None
            # Clients only listen, so one that can be read has closed its end or has lost its way.
            self._ready.register(client, selectors.EVENT_READ, partial(self._let_go, client))
            self._tell(client)

    def _tell(self, client: socket.socket) -> None:
        line = f"main {self._main or '-'}{f' mind {self._mind}' if self._mind else ''}\n".encode()
        try:
            whole = client.send(line) == len(line)
        except OSError:
            whole = False
        if not whole:
            self._let_go(client)

    def _let_go(self, client: socket.socket) -> None:
        if client in self._clients:
            del self._clients[client]
            self._ready.unregister(client)
            client.close()

    def _hear_alarm(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._alarm.recv(4096)
