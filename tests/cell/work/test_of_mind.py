"""What a run is told of what it has read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator

import msgspec
import pytest

from infra.cell.doors import Keep
from infra.cell.work.of_mind import WebReads
from infra.shared.requests import AskTaint, TaintedBy
from tests.cell.doors import AnsweredBy

EVIL = "https://evil.example"


class Door:
    """Gives these answers in turn, the last one again and again."""

    def __init__(self, directory: str, *answers: msgspec.Struct) -> None:
        self.path = f"{directory}/git.sock"
        self._answers = list(answers)
        self.asked: list[object] = []
        self.close = AnsweredBy(self.path, self._answer).close

    def _answer(self, request: object) -> msgspec.Struct:
        self.asked.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture
def directory() -> Iterator[str]:
    made = tempfile.mkdtemp(prefix="minifram-reads-")  # a socket's path must be short
    yield made
    shutil.rmtree(made)


def test_a_run_is_told_what_it_was_served_since_it_began(directory: str) -> None:
    door = Door(directory, TaintedBy((), True), TaintedBy((EVIL,), True))
    run = WebReads(Keep(door.path), 1_769_856_132.9)
    assert (run.is_tainted(), run.origins()) == (True, (EVIL,))
    assert door.asked == [AskTaint(1_769_856_132.9)] * 2
    door.close()


def test_without_an_answer_there_is_none(directory: str) -> None:
    with pytest.raises(OSError, match="cannot be told"):
        WebReads(Keep(f"{directory}/nobody.sock", pause=lambda seconds: None)).origins()
