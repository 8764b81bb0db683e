"""No place from which the command sends or tells what others wrote shows a secret (`tests/shared/leaks.py`)."""

from __future__ import annotations

import pytest

from host.notify import Fact, letter
from host.talk import _asking
from tests.host.desk import Desk
from tests.shared.leaks import Place, counters_stay, examine, question


def places(desk: Desk) -> dict[str, Place]:
    home = desk.home()
    return {
        "notification": lambda words, given: letter("a", [Fact("k", "done", words)], None),
        "question": lambda words, given: str(_asking(home, question(words, given))),
    }


@pytest.mark.attack("S52")
def test_no_place_of_the_host_shows_a_secret(desk: Desk) -> None:
    examine(places(desk), 1)


def test_counters_of_tokens_are_shown_in_each_place(desk: Desk) -> None:
    counters_stay(places(desk))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_place_of_the_host_shows_a_secret_in_any_position(desk: Desk, seed: int) -> None:
    examine(places(desk), seed, most=100)
