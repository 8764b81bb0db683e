"""What the live picture comes from, and who looks at it: what the web door of an agent writes, and clients."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import wsproto
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection, Request

from infra.shared.web import show
from tests.host.desk import Desk
from tests.host.serve.served import Served, serving
from tests.host.test_runs import a_run

RUN = "2026-01-31T104212.000Z-aaaaaaaa"
SETTINGS = "sandbox: process\nmodel: {provider: scripted}\nweb: {browser: on, stream: {enabled: true}}\n"


def jpeg(number: int, size: int = 0) -> bytes:
    """What passes for one where nobody shows it."""
    return b"\xff\xd8\xff" + number.to_bytes(4, "big") + bytes(size)


class Screen:
    """What an agent's browser shows."""

    def __init__(self, path: str) -> None:
        self._path = path

    def put(self, picture: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        show(descriptor, picture)
        os.close(descriptor)


@contextlib.contextmanager
def watched(desk: Desk) -> Iterator[tuple[Served, Screen]]:
    """An agent that is up, in the midst of a run, and `serve`; nobody asks its web door."""
    Path(desk.home().settings).write_text(SETTINGS)
    assert desk.call("up").code == 0
    a_run(desk, RUN, ended=False)
    desk.works()
    try:
        with serving(desk) as served:
            yield served, Screen(desk.home().places.picture)
    finally:
        desk.done("down")


class Viewer:
    """A WebSocket's client. `status` is 101 when it was let in."""

    def __init__(self, base: str, headers: dict[str, str], path: str = "/stream/agent", buffer: int = 0) -> None:
        address = urlsplit(base)
        self._wire = socket.socket()
        if buffer:
            self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._wire.settimeout(20)
        self._wire.connect((address.hostname, address.port))
        self._protocol = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        given = {"host": address.netloc} | headers
        more = [(name.encode(), value.encode()) for name, value in given.items() if name != "host"]
        self._wire.sendall(self._protocol.send(Request(given["host"], path, extra_headers=more)))
        self._events = self._listen()
        self.status, self.message = 101, bytearray()
        match next(self._events):
            case RejectConnection() as refused:
                self.status = refused.status_code
            case other:
                assert isinstance(other, AcceptConnection)

    def frames(self) -> Iterator[bytes]:
        for event in self._events:
            match event:
                case BytesMessage():
                    self.message += event.data
                    if event.message_finished:
                        yield bytes(self.message)
                        self.message.clear()
                case CloseConnection():
                    return

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def _listen(self) -> Iterator[wsproto.events.Event]:
        while received := self._wire.recv(65536):
            self._protocol.receive_data(received)
            yield from self._protocol.events()
