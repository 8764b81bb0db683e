"""What a rehearsal measures around its candidate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.keep.rehearsal import candidate
from infra.keep.rehearsal.findings import Outage
from infra.keep.rehearsal.scratch import Scratch
from infra.keep.rehearsal.verdict import TRANSCRIPT_CHARS
from infra.shared.paths import Paths


def scratch_in(root: Path) -> Scratch:
    made = Scratch(str(root), Paths(f"{root}/b", f"{root}/r.git", f"{root}/s", f"{root}/v"))
    os.makedirs(f"{made.places.main_checkout}/logs/transcripts")
    return made


def test_disk_is_counted_by_what_is_taken_and_by_names(tmp_path: Path) -> None:
    """A hole takes nothing, a name takes something, a link leads nowhere, and counting ends when it is enough."""
    assert candidate.bytes_below(str(tmp_path), 1 << 30) == 0
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").write_bytes(b"x" * 1_000_000)
    (tmp_path / "deep/up").symlink_to("/usr")
    with open(tmp_path / "hole", "wb") as file:
        file.truncate(1 << 40)

    assert 1_000_000 <= candidate.bytes_below(str(tmp_path), 1 << 30) <= 1_100_000
    for number in range(1000):
        (tmp_path / str(number)).touch()
    assert candidate.bytes_below(str(tmp_path), 1 << 30) > 1000 * 4096
    assert 100_000 < candidate.bytes_below(str(tmp_path), 100_000) < 5_100_000


def test_nobody_is_blamed_on_a_disk_that_takes_no_files(tmp_path: Path) -> None:
    """The control is a disk that does."""
    scratch = scratch_in(tmp_path / "scratch")
    candidate.refuse_full_disk(scratch)
    assert os.listdir(scratch.root) == ["b"]

    shutil.rmtree(scratch.root)
    with pytest.raises(Outage, match="takes no more files"):
        candidate.refuse_full_disk(scratch)


def test_the_transcript_is_bounded_and_plain_whatever_was_written(tmp_path: Path) -> None:
    """The last words of each log, and of the conversation what its tools answered."""
    scratch = scratch_in(tmp_path)
    logs = f"{scratch.places.main_checkout}/logs"
    for name in ("bootstrap.log", "errors.log"):
        Path(logs, name).write_bytes(b"\x1b[2J\xff long ago\n" * 100_000 + b"the last word of " + name.encode() + b"\n")
    act = {"call": {"name": "bash"}, "content": "what came of it"}
    Path(logs, "transcripts/1.jsonl").write_text("older\n")
    Path(logs, "transcripts/2.jsonl").write_text("[" * 100_000 + "\n" + json.dumps(act) + '\n{"call": 1}\n7\n')

    shown = candidate.transcript(scratch, ["  0.10 s  clone"])

    assert len(shown) <= TRANSCRIPT_CHARS
    assert all(char.isprintable() or char == "\n" for char in shown)
    for words in ("clone", "last word of bootstrap.log", "last word of errors.log", "bash: what came of it"):
        assert words in shown
    Path(logs, "transcripts/2.jsonl").write_text("told otherwise\n")
    assert "told otherwise" in candidate.transcript(scratch, [])
    shutil.rmtree(logs)
    assert candidate.transcript(scratch, []) == ""


def test_the_limits_are_those_that_this_machine_allows() -> None:
    """Whatever its hard limits are, a command can be started under them."""
    words = candidate.bounded(5.0)

    assert subprocess.run([*words, "true"], check=False).returncode == 0
    limits = subprocess.run([*words, "bash", "-c", "ulimit -f -t"], capture_output=True, text=True, check=True)
    assert f"{candidate.FILE_BYTES // 1024}" in limits.stdout
