"""A loopback server that answers one kind of request with bytes that a test gives it, over real HTTP. What the bytes
mean is `dialects`'s to know."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Answer:
    """Pieces of a body, each sent by itself."""

    pieces: tuple[bytes, ...] = ()
    then: str = "end"
    """`end`: the body ends cleanly. `reset`: the connection is reset. `silence`: nothing more. `endless`: the last
    piece again and again."""
    status: int = 200
    content_type: str = ""
    """Empty: that of a stream in the provider's format."""
    headers: tuple[tuple[str, str], ...] = ()
    pause: float = 0.0
    """Seconds before each piece."""


@dataclass(frozen=True)
class Recorded:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    arrived: float
    """When its last byte did, by time.monotonic()."""
    size: int
    """Of the body, in bytes."""


@dataclass
class Peer:
    """`with Peer(content_type, reply) as peer` runs it on a free port of 127.0.0.1."""

    content_type: str
    reply: Callable[[dict[str, Any]], Answer]
    requests: list[Recorded] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    """When the last byte of each answer was sent."""
    failures: list[Exception] = field(default_factory=list)
    """What `reply` itself raised; leaving the `with` block raises the first one again."""

    def __post_init__(self) -> None:
        self.closing = threading.Event()
        peer = self

        class Handler(_Handler):
            owner = peer

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="peer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self.failures and error is None:
            raise self.failures[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is what many of these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: Peer

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", "0")))
        arrived, body = time.monotonic(), json.loads(content)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.owner.requests.append(Recorded(self.path, headers, body, arrived, len(content)))
        try:
            answer = self.owner.reply(body)
        except Exception as error:
            self.owner.failures.append(error)
            answer = Answer((f"the test's own reply failed: {error!r}".encode(),), status=500)
        self.close_connection = answer.then != "end"
        self.send_response(answer.status)
        self.send_header("content-type", answer.content_type or self.owner.content_type)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces:
            if self.owner.closing.wait(answer.pause):
                return
            self._chunk(piece)
        if answer.then == "end":
            self.wfile.write(b"0\r\n\r\n")
            self.owner.answered.append(time.monotonic())
        elif answer.then == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif answer.then == "silence":
            self.owner.closing.wait(60)
        else:
            while not self.owner.closing.wait(answer.pause):
                self._chunk(answer.pieces[-1])

    def log_message(self, format: str, *args: object) -> None:
        """Tests look at `requests`."""

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        self.wfile.flush()
