"""What a run is told of what it has read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
import structlog

from infra.cell.runner.web_reads import WebReads
from infra.keep.git_door.request_server import RequestServer
from infra.shared.requests import AskTaint, Reply, Request, TaintedBy
from infra.shared.sockets import listen

EVIL = "https://evil.example"


class Door:
    """Gives these answers in turn, the last one again and again."""

    def __init__(self, directory: str, *answers: Reply) -> None:
        self.path = f"{directory}/door.sock"
        self._answers = list(answers)
        self.asked: list[Request] = []
        self._listening = listen(self.path)
        self._server = RequestServer(self._listening, self._answer, structlog.get_logger())
        self._server.start()

    def _answer(self, request: Request) -> Reply:
        self.asked.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        self._server.stop()
        self._listening.close()
        os.unlink(self.path)


@pytest.fixture
def directory() -> Iterator[str]:
    made = tempfile.mkdtemp(prefix="minifram-reads-")  # a socket's path must be short
    yield made
    shutil.rmtree(made)


def test_a_run_is_told_what_it_was_served_since_it_began(directory: str) -> None:
    door = Door(directory, TaintedBy((), True), TaintedBy((EVIL,), True))
    run = WebReads(door.path, 1_769_856_132.9)
    assert (run.is_tainted(), run.origins()) == (True, (EVIL,))
    assert door.asked == [AskTaint(1_769_856_132)] * 2
    door.close()


def test_without_an_answer_there_is_none(directory: str) -> None:
    with pytest.raises(OSError, match="cannot be told"):
        WebReads(f"{directory}/nobody.sock", pause=lambda seconds: None).origins()
