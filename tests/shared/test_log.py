"""The logs of our programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from infra.shared.log import Log, RotatedFile


def test_a_line_is_one_object_with_its_facts() -> None:
    """What was bound comes with each line of that log alone; what JSON has no form for is shown by its `repr`."""
    lines: list[str] = []
    log = Log(lines.append)
    log.bind(branch="main").info("runner.launched", at=Path("/x"), text="two\nlines")
    log.warning("door.died")

    first, second = map(json.loads, lines)
    assert first.pop("timestamp").endswith("Z")
    facts = {"branch": "main", "at": "PosixPath('/x')", "text": "two\nlines"}
    assert first == facts | {"event": "runner.launched", "level": "info"}
    assert (second["level"], "branch" in second) == ("warning", False)
    assert not any("\n" in line for line in lines)


def test_an_exception_is_shown_with_its_traceback() -> None:
    """The one that is being handled, or one that is handed in."""
    lines: list[str] = []
    try:
        raise ValueError("what was wrong")
    except ValueError as error:
        Log(lines.append).exception("look.failed")
        Log(lines.append).error("look.failed", exc_info=error)

    for entry in map(json.loads, lines):
        assert entry["level"] == "error"
        assert entry["exception"].startswith("Traceback")
        assert entry["exception"].endswith("ValueError: what was wrong")


def test_a_file_is_moved_before_it_is_too_large(tmp_path: Path) -> None:
    """Each line is in one of the two files; a line that is larger than the bound is written all the same."""
    path = tmp_path / "watcher.log"
    write = RotatedFile(str(path), 20)
    for text in ("1" * 9, "2" * 9, "3" * 9, "4" * 50):
        write(text)
        assert path.read_text().endswith(f"{text}\n")

    assert Path(f"{path}.1").read_text() == "3" * 9 + "\n"
    assert path.read_text() == "4" * 50 + "\n"
    os.unlink(f"{path}.1")
    again = RotatedFile(str(path), 20)
    again("5")
    assert Path(f"{path}.1").read_text() == "4" * 50 + "\n", "what an earlier program wrote counts"


def test_a_full_disk_ends_nobody() -> None:
    """The line is lost, and the work goes on."""
    RotatedFile("/dev/full", 1 << 20)("lost")
