"""What the keep wrote is read without waiting for it, following it, or taking more of it than it can be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.shared.safe_files import whole_file
from tests.host.desk import Desk


def a_link(path: str) -> None:
    os.symlink("/etc/hostname", path)


PLANTED: dict[str, Callable[[str], None]] = {"pipe": os.mkfifo, "directory": os.mkdir, "link": a_link}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_is_no_file_is_named(tmp_path: Path, plant: Callable[[str], None]) -> None:
    """At once, and with what to do; the control is a file."""
    path = str(tmp_path / "x")
    plant(path)
    with pytest.raises(ValueError, match="is not a regular file, which minifram never puts there"):
        whole_file(path)
    (tmp_path / "y").write_bytes(b"words")
    assert whole_file(str(tmp_path / "y")) == b"words"
    with pytest.raises(FileNotFoundError):
        whole_file(str(tmp_path / "z"))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """One may have no end on the disk at all."""
    with open(tmp_path / "x", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="has more than 16,777,216 bytes"):
        whole_file(str(tmp_path / "x"))


@pytest.mark.parametrize("name", ["watcher.json", "ledger.jsonl", "refused.json"])
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
    assert "is not a regular file" in told.out or name == "refused.json"
    assert desk.run("down").code == 3
