"""The request socket under honest and hostile clients."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from infra.cell.door import ask
from infra.keep.git_door import request_server
from infra.keep.git_door.request_server import RequestServer
from infra.shared.requests import MAX_BYTES, Examination, Examine, Later, Refused, Reply, Request, encode_request
from infra.shared.sockets import connect, listen

REQUEST = Examine("main", "a" * 40)


@contextmanager
def serving(
    directory: Path, answer: Callable[[Request], Reply] = lambda _: Refused("no"), patience: float = 10.0
) -> Iterator[str]:
    path = str(directory / "door.sock")
    with listen(path) as listening:
        server = RequestServer(listening, answer, structlog.get_logger(), patience)
        server.start()
        try:
            yield path
        finally:
            server.stop()


def patient_connect(path: str) -> socket.socket:
    """A connection, also while the queue of those who want in is full (unix(7))."""
    deadline = time.monotonic() + 5.0
    while True:
        try:
            return connect(path, 5.0)
        except BlockingIOError:
            assert time.monotonic() < deadline
            time.sleep(0.002)


def test_a_request_is_answered(tmp_path: Path) -> None:
    """One connection carries one request and its reply."""
    asked = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return Refused("no")

    with serving(tmp_path, answer) as path:
        assert ask(path, REQUEST, 5.0) == Refused("no")
    assert asked == [REQUEST]


def test_an_answer_that_fails_says_later(tmp_path: Path) -> None:
    """A fault in a verb is logged, costs the client a retry, and leaves the door standing."""

    def answer(_: Request) -> Reply:
        raise RuntimeError("broken")

    with serving(tmp_path, answer) as path:
        for _ in range(request_server.THREADS + 1):
            reply = ask(path, REQUEST, 5.0)
            assert isinstance(reply, Later)
            assert "RuntimeError" in reply.why


FLOOD = """
import resource, socket, sys
held, most = [], resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50
for _ in range(1500):
    client = socket.socket(socket.AF_UNIX)
    client.connect(sys.argv[1])
    held.append(client)
    if len(held) > most:
        held.pop(0).close()
"""


def test_clients_that_come_in_a_flood_cost_a_bounded_number_of_threads(tmp_path: Path) -> None:
    """However fast they connect, so that nobody else in the container lacks processes and the door no descriptors."""
    bound = request_server.MAX_READING + request_server.MAX_WAITING + request_server.THREADS
    before, most = threading.active_count(), 0
    with serving(tmp_path) as path:
        flood = [subprocess.Popen([sys.executable, "-c", FLOOD, path]) for _ in range(2)]
        while any(each.poll() is None for each in flood):
            most = max(most, threading.active_count() - before)
            time.sleep(0.005)
        assert [each.wait() for each in flood] == [0, 0]
        assert ask(path, REQUEST, 5.0) == Refused("no")
    assert most <= bound + 1, "one more accepts them"


def test_a_reply_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """No reply ends a thread that answers: what the agent chose, such as names of tests, may make one too long."""
    with serving(tmp_path, lambda _: Examination("examined", {"files": ["\u00e9" * MAX_BYTES]})) as path:
        for _ in range(request_server.THREADS + 1):
            assert isinstance(ask(path, REQUEST, 5.0), Refused)


def test_clients_that_send_half_a_line_keep_nobody_out(tmp_path: Path) -> None:
    """However many connections say half a request, an honest one is answered at once."""
    with serving(tmp_path) as path:
        halves = []
        for _ in range(request_server.MAX_READING + 10):
            client = patient_connect(path)
            client.sendall(b'{"do":')
            halves.append(client)
        began = time.monotonic()
        assert ask(path, REQUEST, 5.0) == Refused("no")
        assert time.monotonic() - began < 2.0
        for client in halves:
            client.close()


def test_a_silent_client_is_let_go(tmp_path: Path) -> None:
    """Whoever sends nothing is disconnected when its time is up."""
    with serving(tmp_path, patience=0.1) as path, connect(path, 5.0) as client:
        assert client.recv(1) == b""


def test_a_line_over_the_bound_is_not_read_on(tmp_path: Path) -> None:
    """The door stops reading a request that is too long."""
    with serving(tmp_path) as path, connect(path, 5.0) as client:
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 100 * MAX_BYTES:
                sent += client.send(b"x" * (1 << 16))
        assert sent < 100 * MAX_BYTES


def test_slow_answers_do_not_stop_the_reading(tmp_path: Path) -> None:
    """While every answering thread is busy, requests wait their turn, and too many are told to come later."""
    go_on = threading.Event()

    def answer(_: Request) -> Reply:
        go_on.wait(10.0)
        return Refused("slow")

    with serving(tmp_path, answer) as path:
        clients: list[socket.socket] = []
        try:
            for _ in range(request_server.THREADS + request_server.MAX_WAITING + 5):
                client = patient_connect(path)
                client.sendall(encode_request(REQUEST))
                clients.append(client)
            assert b"later" in clients[-1].recv(1000)
        finally:
            go_on.set()
        assert b"slow" in clients[0].recv(1000)
        for client in clients:
            client.close()
