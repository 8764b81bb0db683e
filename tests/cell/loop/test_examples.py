"""The examples of the protocol give the events that stand beside them, and they stay valid (V2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cell.loop.examples import play, read_examples

DOCUMENT = Path(__file__).parents[3] / "spec/protocol/EXAMPLES.md"


TITLES = [
    "Write code, run it, read its output, write the result",
    "Update a document that was read at the start",
    "An action that needs approval",
    "A failed operation, and the recovery",
    "A large output, searched by code",
    "A hop to another version of the agent",
    "Three edits of one file",
    "Refused, one by one",
]


@pytest.mark.heavy
def test_each_example_is_what_happens(tmp_path: Path) -> None:
    """All of version 1, by the operations that are said and the events that answer them."""
    found = read_examples(DOCUMENT.read_text())
    assert [example.title for example, _ in found] == TITLES
    for number, (example, answers) in enumerate(found):
        assert len(example.replies) + bool(example.opens_with) == len(answers) > 0, example.title
        assert play(example, tmp_path / str(number)) == answers, example.title
