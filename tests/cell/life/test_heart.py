"""What a runner promises the watcher: it says what it does, and when it is heard of again."""

from __future__ import annotations

import itertools
import os

import pytest

from infra.cell.cell import TENDING_SECONDS
from infra.cell.life import hop
from infra.cell.life.start import SLACK_SECONDS
from infra.cell.wakes import LONGEST_WAIT_SECONDS
from infra.keep.services.hearts import Beat, Heartbeat
from infra.shared.conversation import Completion, Request
from infra.shared.heart import Heart
from infra.shared.requests import Examination
from tests.cell.cell import Cell, limits
from tests.cell.doors import Examines
from tests.cell.life.days import one_run
from tests.cell.life.test_hop import at_home, change
from tests.cell.loop.replies import Canned, bash, calls, says
from tests.cell.loop.waiting import wait_for


@pytest.mark.fault("F68")
@pytest.mark.heavy
def test_a_runner_is_heard_of_from_its_boot_on(cell: Cell) -> None:
    """Here the boot still waits for a door; asleep, it wakes to say so."""
    cell.open_doors()
    os.rename(cell.places.git_socket, f"{cell.places.run}/away")
    heart = Heartbeat(0.0, 60.0)
    try:
        run = cell.start(cell.boot(), heart=heart)
        wait_for(lambda: heart.listen(0.0).beat.doing == "booting", "a beat")
        assert run.words() == ["BOOTSTRAPPING"]
        os.rename(f"{cell.places.run}/away", cell.places.git_socket)
        run.serves()
        wait_for(lambda: heart.listen(0.0).beat.doing == "sleeping", "sleep")
        assert heart.last.beat == Beat("sleeping", LONGEST_WAIT_SECONDS + SLACK_SECONDS)
    finally:
        heart.close()


class Recording(Heart):
    def __init__(self) -> None:
        self.beats: list[tuple[str, float]] = []
        super().__init__()

    def beat(self, doing: str, seconds: float) -> None:
        self.beats.append((doing, seconds))

    def words(self) -> list[str]:
        return [doing for doing, _ in self.beats]


@pytest.mark.fault("F73")
def test_a_unit_of_work_beats_at_each_step(cell: Cell) -> None:
    """Before each model call with its bound, before each tool with the longest one, and before the report."""
    seen: list[str] = []

    def looks(_: Request) -> Completion:
        seen.append(heart.beats[-1][0])
        return calls(bash("true"))

    cell.tell("do it")
    heart = Recording()
    context = cell.context(Canned([looks, says("done")]), limits=limits(run_seconds=25, bash_seconds=2000))

    one_run(context._replace(heartbeat=heart))

    assert seen == ["asking the model"]
    in_turn = [word for word, _ in itertools.groupby(heart.words())]
    assert in_turn == [*["asking the model", "working"] * 2, "reporting"]
    assert ("asking the model", 25) in heart.beats
    assert ("working", 2000) in heart.beats


def test_a_hop_beats_while_it_awaits_its_examination(cell: Cell) -> None:
    """None of a whole hop promises more than a few git calls take."""
    change(cell)
    home, heart = at_home(cell, "improve", limits=limits(validation_seconds=50)), Recording()

    hop.prove_and_hand_over(home._replace(heartbeat=heart, keep=Examines(Examination("examined"))))

    assert "awaiting its examination" in heart.words()
    assert all(0.0 <= seconds <= TENDING_SECONDS for _, seconds in heart.beats)
