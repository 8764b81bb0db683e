"""What the keep wrote is read without waiting for it, following it, or taking more of it than it can be."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.host.desk import Desk


def a_link(path: str) -> None:
    os.symlink("/etc/hostname", path)


PLANTED: dict[str, Callable[[str], None]] = {"pipe": os.mkfifo, "directory": os.mkdir, "link": a_link}


@pytest.mark.parametrize("name", ["watcher.json", "ledger.jsonl"])
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_the_command_does_not_wait_for_what_is_planted_in_the_state(
    desk: Desk, name: str, plant: Callable[[str], None]
) -> None:
    """Status tells all the rest, and what stands in the way."""
    path = f"{desk.home().state}/{name}"
    if os.path.lexists(path):
        os.unlink(path)
    plant(path)
    told = desk.run("status")
    assert told.code == 3
    assert "directives" in told.out
    assert "is not a regular file" in told.out
    assert desk.run("down").code == 3
