"""The cell's side of the doors: whatever answers, there is a completion or a typed failure."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from infra.cell.doors import Model, ModelFailure
from infra.keep.sockets import listen
from infra.shared.conversation import END_TURN, Complete, Completion, Text, Usage
from infra.shared.door import Answer, Failure
from tests.keep.model_door.doors import a_request

GOOD = Completion((Text("hello"),), END_TURN, "m", Usage(1, 2, 3, 4))


class OddDoor:
    """Answers one connection with these bytes, or with none for as long as the test lasts; keeps what it was sent."""

    def __init__(self, answer: bytes | None) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="odd-")
        self.path = f"{self._directory.name}/model.sock"
        self._server = listen(self.path)
        self.heard = b""
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(answer,))
        self._thread.start()

    def _serve(self, answer: bytes | None) -> None:
        client, _ = self._server.accept()
        with client:
            while not self.heard.endswith(b"\n"):
                self.heard += client.recv(65536)
            if answer is None:
                self._leaving.wait(10)
            else:
                client.sendall(answer)

    def close(self) -> None:
        self._leaving.set()
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


def complete(doors: list[OddDoor], answer: bytes | None, seconds: float = 10.0) -> Completion:
    doors.append(OddDoor(answer))
    return Model(doors[-1].path).complete(a_request(), seconds)


def line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


WHOLE = line(Answer(msgspec.Raw(msgspec.json.encode(GOOD))))


def test_a_completion_comes_through(doors: list[OddDoor]) -> None:
    """The control of everything below: a good answer is a completion, and the request arrives as it was."""
    assert complete(doors, WHOLE) == GOOD
    assert msgspec.json.decode(doors[-1].heard, type=Complete) == Complete(a_request())


def test_a_typed_failure_comes_through(doors: list[OddDoor]) -> None:
    """Type, message and the wait that was asked for."""
    with pytest.raises(ModelFailure) as caught:
        complete(doors, line(Answer(failure=Failure("rate_limited", "why", retry_after_seconds=2.5))))
    failure = caught.value
    assert (failure.type, failure.message, failure.retry_after_seconds) == ("rate_limited", "why", 2.5)


ODD_ANSWERS = {
    "nothing": b"",
    "http": b"HTTP/1.1 200 OK\r\n\r\n",
    "a list": b"[]\n",
    "no completion": b'{"answer": {}}\n',
    "an unknown stop reason": b'{"answer": {"content": [], "stop_reason": "bored", "model": "m"}}\n',
    "half a line": WHOLE[:-5],
    "no utf-8": b"\xff\xff\n",
    "deep json": b"[" * 100_000 + b"\n",
    "a failure that is a word": b'{"failure": "a string"}\n',
    "an unknown type of failure": b'{"failure": {"type": "some_future_type", "message": "x"}}\n',
}


@pytest.mark.parametrize("answer", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
def test_an_odd_answer_is_a_door_that_is_unavailable(doors: list[OddDoor], answer: bytes) -> None:
    """Broken, foreign or half answers say nothing against the runner's code."""
    with pytest.raises(ModelFailure) as caught:
        complete(doors, answer)
    assert (caught.value.type, caught.value.retry_after_seconds) == ("unavailable", None)


def test_a_silent_door_is_unavailable(doors: list[OddDoor]) -> None:
    """After the time that the caller gave."""
    with pytest.raises(ModelFailure, match="timed out") as caught:
        complete(doors, None, seconds=0.2)
    assert caught.value.type == "unavailable"


def test_no_door_is_unavailable(tmp_path: Path) -> None:
    """No socket, a dead one, or a path that cannot be one; the message names it."""
    with tempfile.TemporaryDirectory(prefix="odd-") as dead:
        listen(f"{dead}/model.sock").close()
        for path in (str(tmp_path / "none.sock"), f"{dead}/model.sock", "/x" * 200):
            with pytest.raises(ModelFailure) as caught:
                Model(path).complete(a_request(), 1.0)
            assert caught.value.type == "unavailable"
            assert path in caught.value.message
