"""Both doors on real sockets, in threads: a model that answers with canned replies, and the git door's own answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socketserver
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import msgspec
import structlog

from infra.cell.doors import Keep
from infra.git_door import listen_to_hooks
from infra.keep.git_door.app import App
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.tips import Watch
from infra.keep.model_door.app import REQUESTS
from infra.keep.settings.schema import Settings
from infra.keep.sockets import listen
from infra.shared.conversation import Complete, Completion, ModelHealth, Request
from infra.shared.door import Answer, Failure, Health
from infra.shared.paths import Paths
from infra.shared.requests import Examination
from tests.cell.loop.replies import says

POLL_SECONDS = 0.01


class GitDoor:
    """The git door's own answers, in a thread; it looks for moves often. Whoever asks is its runner."""

    def __init__(
        self,
        places: Paths,
        poll_seconds: float = POLL_SECONDS,
        settings: Settings = Settings(),  # noqa: B008 - frozen
    ) -> None:
        self._path = places.git_socket
        requests, pushes, ready = listen(self._path), listen_to_hooks(places), threading.Event()
        context = DoorContext(places, settings, structlog.get_logger())

        async def speaks(pid: int) -> bool:
            return True

        async def serve() -> None:
            self._loop, self._leave = asyncio.get_running_loop(), asyncio.Event()
            app = App(context, Watch(places.remote, poll_seconds), speaks)
            await app.serve(requests, pushes, ready.set, self._leave)

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        assert ready.wait(20)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


class Examines(Keep):
    """The keep, to a runner that awaits its examination: these answers in order."""

    def __init__(self, *answers: Examination | Exception) -> None:
        super().__init__("/nowhere")
        self.answers = list(answers)

    def examine(self, branch: str, commit: str) -> Examination:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Hears(Protocol):
    """What a door says to one line."""

    path: str

    def heard(self, line: bytes) -> bytes: ...


D = TypeVar("D", bound=Hears)


@contextlib.contextmanager
def opened(door: D) -> Iterator[D]:
    """It answers at its socket, each client in a thread. Who goes away while it waits for its answer is no error."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                self.wfile.write(door.heard(self.rfile.readline()))

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True
        block_on_close = False

    with Server(door.path, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            yield door
        finally:
            server.shutdown()
            thread.join()


class Refusal(NamedTuple):
    """An answer of the model door that is not a completion."""

    type: str
    message: str = "as the test wants it"
    retry_after_seconds: float | None = None


Reply = Completion | Refusal | Callable[[Request], Completion | Refusal]


class ModelDoor:
    """Answers with `replies` in order, then with `at_last` for ever; keeps what it was asked."""

    def __init__(self, path: str) -> None:
        self.replies: deque[Reply] = deque()
        self.at_last: Reply = says("I have nothing to say.")
        self.requests: list[Request] = []
        self.healthy = True
        self.path = path
        self._opened = opened(self)
        self._opened.__enter__()

    def heard(self, line: bytes) -> bytes:
        said = self.answer(msgspec.json.decode(line, type=REQUESTS))
        problem = Failure(*said[:2], retry_after_seconds=said[2]) if isinstance(said, Refusal) else None
        answer = Answer(failure=problem) if problem else Answer(msgspec.Raw(msgspec.json.encode(said)))
        return msgspec.json.encode(answer) + b"\n"

    def answer(self, asked: Complete | Health) -> msgspec.Struct | Refusal:
        match asked:
            case Complete(request):
                self.requests.append(request)
                reply = self.replies.popleft() if self.replies else self.at_last
                return reply(request) if callable(reply) else reply
            case Health() if self.healthy:
                return ModelHealth("scripted", "demo")
        return Refusal("unavailable")

    def close(self) -> None:
        self._opened.__exit__(None, None, None)
