"""A request to end breaks off only what said that it may be broken off."""

from __future__ import annotations

import pytest

from infra.cell.interruption import Interrupted, Interruption


def test_a_request_outside_of_a_block_is_only_noted() -> None:
    """What may not be broken off goes on; the next place that may be is where it ends."""
    interruption = Interruption()

    interruption.ask()

    assert interruption.asked
    with pytest.raises(Interrupted), interruption:
        pytest.fail("a block was entered after the request to end")


def test_a_request_inside_of_a_block_breaks_it_off() -> None:
    """The block that runs is left at once."""
    interruption = Interruption()
    went_on = False

    def block() -> None:
        nonlocal went_on
        with interruption:
            interruption.ask()
            went_on = True

    with pytest.raises(Interrupted):
        block()
    assert not went_on


def test_only_the_first_request_breaks_off() -> None:
    """Cleaning up after the first is not broken off by a second."""
    interruption = Interruption()
    with pytest.raises(Interrupted), interruption:
        interruption.ask()

    interruption.ask()

    with pytest.raises(Interrupted):
        interruption.check()


def test_without_a_request_blocks_run() -> None:
    """The control: nothing is broken off that nobody asked to end."""
    interruption = Interruption()

    with interruption, interruption:
        interruption.check()

    interruption.check()


def test_no_handler_of_trouble_takes_it() -> None:
    """`except Exception` is for trouble, and being asked to end is none."""
    assert not issubclass(Interrupted, Exception)
