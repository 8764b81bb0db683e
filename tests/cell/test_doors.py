"""The cell's side of the doors: whatever answers, there is a completion or a typed failure."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import msgspec
import pytest

from infra.cell.doors import UNKNOWN_ORIGIN, Keep, Model, ModelFailure
from infra.keep.sockets import listen
from infra.shared.conversation import END_TURN, Complete, Completion, Text, Usage
from infra.shared.door import Answer
from infra.shared.requests import TaintedBy
from tests.cell.doors import opened
from tests.keep.model_door.doors import a_request

GOOD = Completion((Text("hello"),), END_TURN, "m", Usage(1, 2, 3, 4))


class Odd:
    """A door that answers these bytes, or none as long as it is asked."""

    def __init__(self, path: str, answer: bytes | None) -> None:
        self.path, self.answer = path, answer
        self.asked, self.leaving = b"", threading.Event()

    def heard(self, line: bytes) -> bytes:
        self.asked = line
        if self.answer is None:
            self.leaving.wait(10)
        return self.answer or b""


def complete(answer: bytes | None, seconds: float = 10.0) -> tuple[Completion, bytes]:
    """By such a door; and what it was sent."""
    with (
        tempfile.TemporaryDirectory(prefix="odd-") as directory,
        opened(Odd(f"{directory}/model.sock", answer)) as door,
    ):
        try:
            return Model(door.path).complete(a_request(), seconds), door.asked
        finally:
            door.leaving.set()


def line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


WHOLE = line(Answer(msgspec.Raw(msgspec.json.encode(GOOD))))


def test_a_completion_comes_through() -> None:
    """The control of everything below: a good answer is a completion, and the request arrives as it was."""
    completion, heard = complete(WHOLE)
    assert completion == GOOD
    assert msgspec.json.decode(heard, type=Complete) == Complete(a_request())


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
def test_an_odd_answer_is_a_door_that_is_unavailable(answer: bytes) -> None:
    """Broken, foreign or half answers say nothing against the runner's code."""
    with pytest.raises(ModelFailure) as caught:
        complete(answer)
    assert (caught.value.type, caught.value.retry_after_seconds) == ("unavailable", None)


def test_a_silent_door_is_unavailable() -> None:
    """After the time that the caller gave."""
    with pytest.raises(ModelFailure, match="timed out") as caught:
        complete(None, seconds=0.2)
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


def test_who_is_not_told_counts_as_tainted(tmp_path: Path) -> None:
    keep = Keep(f"{tmp_path}/git.sock")
    assert keep.taint(0.0) == TaintedBy((UNKNOWN_ORIGIN,), True)
