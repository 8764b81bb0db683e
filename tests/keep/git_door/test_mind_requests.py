"""What a runner asks the keep of the mind, and tells it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from infra.cell.doors import Keep
from infra.keep.door_server import Refusal
from infra.keep.git_door.app import answer
from infra.keep.git_door.context import DoorContext
from infra.keep.settings.schema import Settings
from infra.shared.paths import Paths
from infra.shared.requests import Record, Recorded
from tests.cell.doors import GitDoor


def test_events_are_taken_or_refused_with_the_reason(tmp_path: Path) -> None:
    """Without a look at the repository. A log that cannot be written may be written later."""
    places = Paths(f"{tmp_path}/bot", f"{tmp_path}/none.git", f"{tmp_path}/run", str(tmp_path))
    door = DoorContext(places, Settings(), structlog.get_logger(), wall_seconds=lambda: 1769856132.0)
    (tmp_path / "events").write_text("a file in its place")
    with pytest.raises(Refusal) as caught:
        answer(door, Record(({"event_type": "note"},)))
    assert (caught.value.failure.type, caught.value.failure.retriable) == ("unavailable", True)
    (tmp_path / "events").unlink()
    assert answer(door, Record(({"event_type": "note"},) * 2)) == Recorded(2, "2026-01-31T10:42:12.000Z")
    assert answer(door, Record(())) == Recorded(2, "2026-01-31T10:42:12.000Z")
    with pytest.raises(Refusal) as caught:
        answer(door, Record(({"event_type": "x"},)))
    assert (caught.value.failure.type, caught.value.failure.retriable) == ("refused", False)


@pytest.mark.attack("S63")
def test_events_are_taken_from_the_runner_alone(tmp_path: Path) -> None:
    """A command of the cell connects as the same user, with another pid."""
    places = Paths(f"{tmp_path}/bot", f"{tmp_path}/none.git", str(tmp_path), str(tmp_path))
    with contextlib.closing(GitDoor(places, is_runner=lambda pid: pid == os.getpid())):
        keep = Keep(places.git_socket)
        assert keep.record([{"event_type": "note"}]).last == 1
        words = "import sys; from infra.cell.doors import Keep; Keep(sys.argv[1]).record([{'event_type': 'note'}])"
        command = [sys.executable, "-c", words, places.git_socket]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "are taken from the agent's runner alone" in child.stderr
        assert keep.record([]).last == 1
