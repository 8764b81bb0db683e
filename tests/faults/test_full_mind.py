"""The disk of the mind is full: nothing is done that it cannot take a note of, and all goes on when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cell.mind.duties import STATE
from infra.cell.mind.event_chain import verify
from infra.cell.mind.event_log import logged
from infra.cell.run_states import StopReason
from infra.shared.mind.layout import EVENTS
from tests.cell.loop.replies import says
from tests.cell.mind.one_mind import OneMind
from tests.cell.mind.test_maintain import NOW, Played, never
from tests.cell.runner.cell import Cell
from tests.cell.runner.test_run import work
from tests.cell.runner.test_run_events import events, heads, with_mind
from tests.faults.disks import fill, small_disk

pytestmark = pytest.mark.heavy


def test_a_run_whose_events_cannot_be_written_ends_and_is_tried_again_later(cell: Cell) -> None:
    """Fault: no room for a run's first event; expected: no model is asked for what is not recorded, the page tells, the
    directive stays open, and with room again the work is done on one chain."""
    mind = with_mind(cell)
    cell.tell("do it")
    with small_disk(Path(mind.root, EVENTS), "1m") as disk:
        filler = fill(disk)
        outcome, model = work(cell, says("never said"))
        assert (outcome.reason, model.requests) == (StopReason.NOT_RECORDED, [])
        assert "stopped (not_recorded): do it" in cell.reports()[-1]
        assert "/agent/logs/events" in cell.reports()[-1]
        assert cell.open() == ["do it"]

        filler.unlink()
        assert work(cell, says("Done."))[0].reason is StopReason.COMPLETED
        assert [each.metadata.status for each in events(mind)] == ["began", "completed"]
        assert not verify(logged(mind), heads(cell))


def test_duties_that_cannot_be_noted_are_not_done(tmp_path: Path) -> None:
    """Fault: no room to note a try; expected: the duty, which may cost money, is not begun, and is with room again."""
    mind, played = OneMind(str(tmp_path), NOW), Played()
    with small_disk(Path(mind.root, STATE).parent, "1m") as disk:
        filler = fill(disk)
        for _ in range(2):
            assert played.maintenance().tend(mind.context(), False, never)
        assert played.did == []
        assert "No space left" in str(mind.notes("mind.duties_not_noted"))

        filler.unlink()
        assert played.maintenance().tend(mind.context(), False, never)
        assert len(played.did) == 2
