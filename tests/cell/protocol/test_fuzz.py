"""Nothing that a model may write is a crash, or has a part of it carried out that another parser would not see."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from infra.cell.protocol.read import read
from infra.cell.tools.tool import REFUSED
from tests.cell.protocol.fuzz import PIECES, inputs, problem, whole
from tests.cell.protocol.test_read import verdict


def examine(seed: int, count: int) -> None:
    wrong = [(why, text) for text, is_beginning in inputs(seed, count) if (why := problem(text, is_beginning))]
    assert wrong == []


@pytest.mark.attack("S51")
@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.heavy)])
def test_thousands_of_replies(count: int) -> None:
    examine(1, count)


def test_what_is_tried_is_worth_it() -> None:
    """The control: whole replies are taken, damaged ones now and then, and a wrong reading is noticed."""
    chance = random.Random(2)
    replies = [read(whole(chance).text) for _ in range(500)]
    names = Counter(item.name for reply in replies for item in reply.items)
    assert names.pop(REFUSED) < 100, "commands of white space alone"
    assert min(names.values()) > 20
    found = Counter(verdict(text) for text, is_beginning in inputs(3, 1000) if not is_beginning)
    assert min(found[name] for name in ("take", "stop", "words")) > 20
    text = '[{"type": "shell", "command": "ls"}]'
    assert problem(text, True)
    assert not problem(text, False)


NASTY = (
    *PIECES,
    *(
        "<think></think>",
        "```block A\n```\n",
        "```block A\n",
        "[{}]\n",
        "{}\n{",
        '[{"type":',
        '{"a":"\\"",',
        ",\n",
        "{x",
    ),
    *('[{"type": "shell", "command": "ls"},\n', '{"block": "A"},', "[[]],", '"\n"', '\\"', "...\n", " ", "x", "x\n"),
    *("}\n]\n", "{x"),
)
SIZE, TIMES = 4000, 8


def seconds(text: str) -> float:
    """Of this process alone, at best."""

    def once() -> float:
        began = time.process_time()
        verdict(text)
        return time.process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.parametrize("frame", ["{}", "[{}", '[{{"type": "shell", "command": "{}', "I look.\n```json\n{}\n```"])
@pytest.mark.heavy
def test_the_time_to_read_grows_with_the_size_alone(frame: str) -> None:
    """Eight times as much takes eight times as long, not sixty-four times, whatever is repeated."""
    slow = {}
    for piece in NASTY:
        short, long = (frame.format(piece * (size // len(piece))) for size in (SIZE, SIZE * TIMES))
        if (ratio := seconds(long) / (seconds(short) + 0.0005)) > 3 * TIMES:
            slow[piece] = ratio
    assert slow == {}
