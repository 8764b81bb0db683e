"""The runner's side of the door: whatever answers, there is a completion or a typed failure."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cell.model_client import ModelFailure, complete, health
from infra.shared.conversation import (
    END_TURN,
    ERROR_TYPES,
    REFUSAL,
    Completion,
    Text,
    Usage,
    request_from_dict,
    to_plain,
)
from infra.shared.sockets import connect, listen
from tests.keep.model_door.doors import DoorProcess, a_request

GOOD = Completion((Text("hello"),), END_TURN, "m", Usage(1, 2, 3, 4))


class OddDoor:
    """Answers every connection with the same bytes and closes it; keeps what it was sent."""

    def __init__(self, answer: bytes | None) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="odd-")
        self.path = f"{self._directory.name}/model.sock"
        self._answer = answer
        self._server = listen(self.path)
        self.heard = b""
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            client, _ = self._server.accept()
            with client:
                if self._leaving.is_set():
                    return
                self._read_request(client)
                if self._answer is None:
                    self._leaving.wait(10)
                else:
                    client.sendall(self._answer)

    def _read_request(self, client: socket.socket) -> None:
        self.heard = b""
        while b"\r\n\r\n" not in self.heard:
            self.heard += client.recv(65536)
        head, _, body = self.heard.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += client.recv(65536)
        self.heard = head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._leaving.set()
        connect(self.path, 5.0).close()
        self._thread.join()
        self._server.close()
        self._directory.cleanup()


@pytest.fixture
def doors() -> Iterator[list[OddDoor]]:
    """Doors that are closed after the test."""
    made: list[OddDoor] = []
    yield made
    for door in made:
        door.close()


def http(status: str, body: bytes, length: int | None = None, content_type: str = "application/json") -> bytes:
    told = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {told}\r\n\r\n".encode() + body


def ask(doors: list[OddDoor], answer: bytes | None, timeout_seconds: float = 10.0) -> Completion:
    doors.append(OddDoor(answer))
    return complete(doors[-1].path, a_request(), timeout_seconds)


def test_a_completion_comes_through(doors: list[OddDoor]) -> None:
    """The control of everything below: a good answer is a completion, and the request arrives as it was."""
    body = json.dumps(to_plain(GOOD)).encode()

    assert ask(doors, http("200 OK", body)) == GOOD
    assert request_from_dict(json.loads(doors[-1].heard.partition(b"\r\n\r\n")[2])) == a_request()


@pytest.mark.parametrize("type", ERROR_TYPES)
def test_a_typed_failure_comes_through(doors: list[OddDoor], type: str) -> None:
    """Type, message and the wait that was asked for."""
    body = json.dumps({"error": {"type": type, "message": "why", "retry_after_seconds": 2.5}}).encode()

    with pytest.raises(ModelFailure) as caught:
        ask(doors, http(f"{ERROR_TYPES[type]} No", body))

    assert (caught.value.type, caught.value.message, caught.value.retry_after_seconds) == (type, "why", 2.5)


ODD_ANSWERS = {
    "nothing": b"",
    "no http": b"nonsense\r\n\r\n",
    "a page": http("200 OK", b"<html>", content_type="text/html"),
    "a list": http("200 OK", b"[]"),
    "null": http("200 OK", b"null"),
    "an empty object": http("200 OK", b"{}"),
    "an unknown stop reason": http("200 OK", b'{"content": [], "stop_reason": "bored", "model": "m", "usage": {}}'),
    "a block that is a word": http(
        "200 OK", b'{"content": ["x"], "stop_reason": "end_turn", "model": "m", "usage": {}}'
    ),
    "half the json": http("200 OK", json.dumps(to_plain(GOOD)).encode()[:-5]),
    "half the body": http("200 OK", json.dumps(to_plain(GOOD)).encode(), length=10_000),
    "no utf-8": http("200 OK", b"\xff\xff"),
    "deep json": http("200 OK", b"[" * 100_000),
    "words with 500": http("500 Oh", b"Internal Server Error", content_type="text/plain"),
    "an error that is a word": http("503 Oh", b'{"error": "a string"}'),
    "an unknown error type": http("503 Oh", b'{"error": {"type": "some_future_type", "message": "x"}}'),
    "a redirect": http("302 Found", b"{}"),
    "half a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500 + b"\r\n",
}


@pytest.mark.parametrize("answer", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
def test_an_odd_answer_is_a_door_that_is_unavailable(doors: list[OddDoor], answer: bytes) -> None:
    """Broken, foreign or half answers say nothing against the runner's code."""
    with pytest.raises(ModelFailure) as caught:
        ask(doors, answer)

    assert caught.value.type == "unavailable"
    assert caught.value.retry_after_seconds is None


def test_a_silent_door_is_unavailable(doors: list[OddDoor]) -> None:
    """After the time that the caller gave."""
    with pytest.raises(ModelFailure) as caught:
        ask(doors, None, timeout_seconds=0.2)

    assert caught.value.type == "unavailable"
    assert "timed out" in caught.value.message


def test_no_door_is_unavailable(tmp_path: Path) -> None:
    """No socket, a dead one, or a path that cannot be one; the message names it."""
    dead = tempfile.mkdtemp(prefix="odd-")
    listen(f"{dead}/model.sock").close()

    for path in (str(tmp_path / "none.sock"), f"{dead}/model.sock", "/x" * 200):
        with pytest.raises(ModelFailure) as caught:
            complete(path, a_request(), 1.0)
        assert caught.value.type == "unavailable"
        assert path in caught.value.message
    Path(f"{dead}/model.sock").unlink()
    Path(dead).rmdir()


def test_bytes_that_are_no_text_reach_the_model_as_marks(tmp_path: Path) -> None:
    """A page may hold any bytes, and is read so that they survive; one of them must not stop the agent."""
    page = b"- [ ] caf\xe9, \xed\xa0\x80, \xff".decode(errors="surrogateescape")
    with DoorProcess(tmp_path, {}) as door:
        answer = complete(door.places.model_socket, a_request(page), 10.0)

    assert answer.stop_reason == REFUSAL


def test_health_is_what_the_door_says_or_a_failure(doors: list[OddDoor]) -> None:
    """The same two outcomes."""
    doors.append(OddDoor(http("200 OK", b'{"status": "ok", "problem": null}')))
    assert health(doors[-1].path, 5.0) == {"status": "ok", "problem": None}

    doors.append(OddDoor(http("500 Oh", b"{}")))
    with pytest.raises(ModelFailure, match="unavailable"):
        health(doors[-1].path, 5.0)
