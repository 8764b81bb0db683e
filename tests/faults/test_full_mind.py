"""The disk of the mind is full: nothing is done that it cannot take a note of, and all goes on when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cell.mind.duties import STATE
from tests.cell.mind.one_mind import OneMind
from tests.cell.mind.test_maintain import NOW, Played, never
from tests.faults.disks import fill, small_disk

pytestmark = pytest.mark.heavy


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
