"""The examples of the protocol give the events that stand beside them, and they stay valid (V2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cell.loop.examples import play, read_examples

DOCUMENT = Path(__file__).parents[3] / "spec/protocol/EXAMPLES.md"


@pytest.mark.heavy
def test_each_example_is_what_happens(tmp_path: Path) -> None:
    """All of version 1, by the operations that are said and the events that answer them."""
    found = read_examples(DOCUMENT.read_text())
    assert len({example.title for example, _ in found}) == 8
    for number, (example, answers) in enumerate(found):
        assert len(example.replies) + bool(example.opens_with) == len(answers) > 0, example.title
        assert play(example, tmp_path / str(number)) == answers, example.title
