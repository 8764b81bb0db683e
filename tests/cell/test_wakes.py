"""The runner wakes when main moves, and on the grid of the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from infra.cell.interruption import Interrupted, Interruption
from infra.cell.wakes import Wakes, next_tick
from tests.cell.cell import Cell
from tests.cell.doors import opened

FAR = 1e12


def test_ten_minutes_are_ten_minutes_of_the_clock() -> None:
    """11:59:59 and 11:50:00 both wait for 12:00:00 (seed 001, Work Loop)."""
    noon = 12 * 3600.0

    assert next_tick(noon - 1, 600) == next_tick(noon - 600, 600) == noon
    assert next_tick(noon, 600) == noon + 600


@pytest.fixture
def wakes(cell: Cell) -> Iterator[Wakes]:
    cell.open_git_door()
    made = Wakes(cell.places.git_socket, cell.context().log, Interruption())
    yield made
    made.close()


def test_a_move_of_main_wakes(cell: Cell, wakes: Wakes) -> None:
    """Long before the clock would."""
    wakes.seen(main=cell.main())
    assert not wakes.sleep(time.time() + 0.1), "where main is known to be is not news, though the door says it"

    cell.tell("something")

    assert wakes.sleep(time.time() + 20)


def test_a_move_that_a_door_was_away_for_wakes_when_it_is_back(cell: Cell, wakes: Wakes) -> None:
    wakes.seen(main=cell.main())
    wakes.sleep(time.time() + 0.05)
    cell.close_git_door()
    cell.tell("something")
    began = time.monotonic()
    assert not wakes.sleep(time.time() + 0.05), "the control: nobody tells while the door is away"

    cell.open_git_door()

    assert wakes.sleep(time.time() + 20)
    assert time.monotonic() - began < 15


class Closes:
    """A door that says nothing, and closes."""

    def __init__(self, path: str) -> None:
        self.path, self.asked = path, 0

    def heard(self, line: bytes) -> bytes:
        self.asked += 1
        return b""


def test_a_door_that_closes_at_once_is_not_asked_in_a_frenzy(cell: Cell) -> None:
    """Between two questions lies a pause."""
    with opened(Closes(f"{cell.places.run}/other.sock")) as door:
        Wakes(door.path, cell.context().log, Interruption()).sleep(time.time() + 0.5)
    assert 1 <= door.asked <= 2


def test_sleep_is_where_a_runner_may_be_ended(cell: Cell) -> None:
    """Being asked to end does not wait for the next tick."""
    interruption = Interruption()
    wakes = Wakes("/nowhere", cell.context().log, interruption)
    interruption.ask()

    with pytest.raises(Interrupted):
        wakes.sleep(FAR)
