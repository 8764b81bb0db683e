"""Both doors on real sockets, in threads: a model that answers with canned replies, and the git door's own answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socketserver
import sys
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

import msgspec
import structlog

from infra.keep.door_server import Caller, DoorServer
from infra.keep.door_server import Refusal as Refusing
from infra.keep.git_door.app import LIMITS, App, Requests
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.tips import Watch
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
from infra.shared.door import Failure
from infra.shared.paths import Paths
from infra.shared.sockets import listen
from tests.cell.loop.replies import says

POLL_SECONDS = 0.01


class Served:
    """A door's server in a thread, at a path."""

    def __init__(self, path: str, server: Callable[[], DoorServer]) -> None:
        self._path = path
        listening, ready = listen(path), threading.Event()

        async def serve() -> None:
            self._loop, self._leave = asyncio.get_running_loop(), asyncio.Event()
            await server().serve_until(self._leave, listening, ready.set)

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        assert ready.wait(20)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


class GitDoor(Served):
    """The git door's own answers; it looks for moves more often than in life."""

    def __init__(self, places: Paths, poll_seconds: float = POLL_SECONDS) -> None:
        context = DoorContext(places, Settings(), structlog.get_logger())
        super().__init__(places.git_socket, lambda: App(context, Watch(places.remote, poll_seconds)).server())


class AnsweredBy(Served):
    """The git door's socket, with the test's own answers."""

    def __init__(self, path: str, answer: Callable[[Any], msgspec.Struct]) -> None:
        async def answered(request: object, caller: Caller) -> msgspec.Struct:
            found = answer(request)
            if isinstance(found, Failure):
                raise Refusing(found)
            return found

        super().__init__(
            path, lambda: DoorServer(Requests, answered, lambda error: Failure("refused", str(error)), LIMITS)
        )


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
