"""A request to end breaks off only what said that it may be broken off."""

from __future__ import annotations

import pytest

from infra.cell.interruption import Interrupted, Interruption


def test_a_request_outside_of_a_block_is_only_noted() -> None:
    """What may not be broken off goes on; the next place that may be is where it ends."""
    interruption = Interruption()
    with interruption, interruption:
        interruption.check()

    interruption.ask()

    assert interruption.asked
    with pytest.raises(Interrupted):
        interruption.check()
    with pytest.raises(Interrupted), interruption:
        pytest.fail("a block was entered after the request to end")


def test_a_request_inside_of_a_block_breaks_it_off() -> None:
    """At once, and once: cleaning up is not broken off by a second. No handler of trouble takes it."""
    interruption = Interruption()
    went_on = list[bool]()

    def block() -> None:
        with interruption:
            interruption.ask()
            went_on.append(True)

    with pytest.raises(Interrupted):
        block()
    interruption.ask()
    assert went_on == []
    assert not issubclass(Interrupted, Exception)
