"""Both doors by hand, on real sockets, in threads: one answers with canned replies, one tells when main moves."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

import structlog

from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.request_server import RequestServer
from infra.keep.git_door.requests import answer
from infra.keep.settings import Settings
from infra.shared.control import PROBE_PATH
from infra.shared.conversation import (
    ACTS_PATH,
    COMPLETE_PATH,
    ERROR_TYPES,
    HEALTH_PATH,
    Completion,
    Request,
    request_from_dict,
    to_plain,
)
from infra.shared.paths import Paths
from infra.shared.repository.git import Git
from infra.shared.repository.tip import resolve_object
from infra.shared.sockets import listen
from tests.cell.loop.replies import says

POLL_SECONDS = 0.01


class Requests:
    """The keep's own verbs, on a real socket."""

    def __init__(self, places: Paths, settings: Settings = Settings()) -> None:  # noqa: B008 - frozen
        self._path = places.request_socket
        self._listening = listen(self._path)
        log = structlog.get_logger()
        self._server = RequestServer(self._listening, partial(answer, DoorContext(places, settings, log)), log)
        self._server.start()

    def close(self) -> None:
        self._server.stop()
        self._listening.close()
        os.unlink(self._path)


class Refusal(NamedTuple):
    """An answer of the model door that is not a completion."""

    type: str
    message: str = "as the test wants it"
    retry_after_seconds: float | None = None


Answer = Completion | Refusal
Reply = Answer | Callable[[Request], Answer]


class ModelDoor:
    """Answers with `replies` in order, then with `at_last` for ever; keeps what it was asked."""

    def __init__(self, path: str, probe: str = os.devnull) -> None:
        """`probe` is the file that the watcher writes for it."""
        self.replies: deque[Reply] = deque()
        self.at_last: Reply = says("I have nothing to say.")
        self.requests: list[Request] = []
        self.healthy = True
        self.acts = ""
        """How runs ask for acts; empty: it is one that does not say."""
        self.lacking: list[str] = []
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == PROBE_PATH:
                    with open(probe, encoding="ascii") as file:
                        self._answer(200, {"probe": file.read()})
                    return
                if self.path == ACTS_PATH and door.acts:
                    self._answer(200, {"acts": door.acts, "lacking": door.lacking})
                    return
                self._answer(200 if door.healthy and self.path == HEALTH_PATH else 503, {"status": "ok"})

            def do_POST(self) -> None:
                assert self.path == COMPLETE_PATH
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                request = request_from_dict(body)
                door.requests.append(request)
                reply = door.replies.popleft() if door.replies else door.at_last
                answer = reply(request) if callable(reply) else reply
                if isinstance(answer, Refusal):
                    problem: dict[str, Any] = {"type": answer.type, "message": answer.message}
                    problem |= {"retry_after_seconds": answer.retry_after_seconds}
                    self._answer(ERROR_TYPES[answer.type], {"error": problem})
                else:
                    self._answer(200, to_plain(answer))

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                """A runner that was ended while it waited for its answer is no error of the door's."""
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)  # type: ignore[arg-type]

        self._server = Server(path, Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class GitDoor:
    """Tells each client where main of a bare repository is, at once and whenever it moves."""

    def __init__(self, path: str, remote: str) -> None:
        self._path = path
        self._remote = remote
        self._listener = listen(path)
        self._listener.settimeout(POLL_SECONDS)
        self._clients: list[socket.socket] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        said = self._line()
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                client = None
            now = self._line()
            if now != said:
                said = now
                self._clients = [known for known in self._clients if _tell(known, said)]
            if client and _tell(client, said):
                self._clients.append(client)

    def _line(self) -> bytes:
        main = self._commit("main")
        if main is None:  # packed, or moved away by the test
            main = resolve_object(Git(self._remote), "refs/heads/main") if os.path.isdir(self._remote) else None
        mind = self._commit("mind")
        return f"main {main or '-'}{f' mind {mind}' if mind else ''}\n".encode()

    def _commit(self, branch: str) -> str | None:
        try:
            with open(os.path.join(self._remote, "refs/heads", branch), encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return None

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        for open_socket in (self._listener, *self._clients):
            open_socket.close()
        if os.path.exists(self._path):
            os.unlink(self._path)


def _tell(client: socket.socket, line: bytes) -> bool:
    try:
        client.sendall(line)
    except OSError:
        client.close()
        return False
    return True
