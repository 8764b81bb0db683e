"""Logs cut under their writers' hands, and what must never be cut."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.identity import Identity
from infra.shared.trim import MOST_KEPT, trim_log
from tests.keep.limits.conftest import Start
from tests.keep.supervision.agents import within

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else or mount a small disk")
WRITER = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while os.fstat(log).st_size < 50_000_000:
    os.write(log, b"x" * 10_000)
print(flush=True)
for line in sys.stdin:
    os.write(log, line.encode())
    print(flush=True)
"""


def test_an_endless_line_is_cut_and_its_writer_goes_on(tmp_path: Path, start: Start) -> None:
    """The end is kept beside; what is written next is at the log's beginning."""
    log = tmp_path / "errors.log"
    writer = start(WRITER, str(log), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdin
    assert writer.stdout
    writer.stdout.readline()
    writer.stdin.write(b"why it happened\n")
    writer.stdin.flush()
    writer.stdout.readline()
    size = log.stat().st_size
    assert trim_log(str(tmp_path), "errors.log", 1000) == size >= 50_000_000
    kept = (tmp_path / "errors.log.1").read_bytes()
    assert len(kept) == 1000
    assert kept.endswith(b"xxxwhy it happened\n")
    writer.stdin.write(b"and on\n")
    writer.stdin.flush()
    writer.stdout.readline()
    assert log.read_bytes() == b"and on\n"


def test_a_log_can_be_cut_while_it_is_being_written(tmp_path: Path, start: Start) -> None:
    """Again and again: each time it is smaller afterwards than all that was written."""
    log = tmp_path / "a.log"
    program = "import os, sys\nf = os.open(sys.argv[1], 1025 | 64)\nwhile True: os.write(f, b'y' * 65536)"
    start(program, str(log))
    for _ in range(5):
        within(20, lambda: (log.exists() and log.stat().st_size > 4_000_000) or None, "a log that grows")
        before = log.stat().st_ino
        assert trim_log(str(tmp_path), "a.log", 5000) > 4_000_000
        assert log.stat().st_ino == before
        assert (tmp_path / "a.log.1").read_bytes() == b"y" * 5000


@given(st.binary(max_size=200), st.integers(0, 300))
def test_exactly_the_end_is_kept(tmp_path_factory: pytest.TempPathFactory, content: bytes, most: int) -> None:
    """Of any content; a short one whole."""
    directory = tmp_path_factory.mktemp("trim")
    (directory / "x.log").write_bytes(content)
    (directory / "x.log.1").write_bytes(b"older")
    assert trim_log(str(directory), "x.log", most) == len(content)
    assert (directory / "x.log").read_bytes() == b""
    assert (directory / "x.log.1").read_bytes() == (content[-most:] if most else b"")
    assert sorted(os.listdir(directory)) == ["x.log", "x.log.1"]


def test_what_is_kept_has_a_bound(tmp_path: Path) -> None:
    """However much is asked for."""
    with open(tmp_path / "x.log", "wb") as file:
        file.truncate(1 << 33)
    assert trim_log(str(tmp_path), "x.log", 1 << 40) == 1 << 33
    assert (tmp_path / "x.log.1").stat().st_size == MOST_KEPT


def test_only_a_plain_file_is_cut(tmp_path: Path) -> None:
    """A link, a pipe, a directory and nothing are refused, without waiting; what a link leads to is left alone."""
    bot = tmp_path / "bot"
    (bot / "logs").mkdir(parents=True)
    (tmp_path / "pm.txt").write_text("the PM's")
    (bot / "logs/link").symlink_to(tmp_path / "pm.txt")
    os.mkfifo(bot / "logs/pipe")
    (bot / "logs/directory").mkdir()
    (bot / "outside").symlink_to(tmp_path)
    for name in ("logs/link", "logs/pipe", "logs/directory", "logs/none", "outside/pm.txt", "none/none"):
        with pytest.raises(OSError, match=r"."):
            trim_log(str(bot), name, 10)
    assert (tmp_path / "pm.txt").read_text() == "the PM's"
    assert sorted(os.listdir(bot / "logs")) == ["directory", "link", "pipe"]


def test_what_stands_where_the_end_is_kept_does_not_matter(tmp_path: Path) -> None:
    """A link there is replaced itself; a directory is moved aside, never deleted."""
    (tmp_path / "pm.txt").write_text("the PM's")
    (tmp_path / "a.log").write_text("aaa")
    (tmp_path / "a.log.1").symlink_to(tmp_path / "pm.txt")
    trim_log(str(tmp_path), "a.log", 2)
    assert (tmp_path / "a.log.1").read_text() == "aa"
    assert not (tmp_path / "a.log.1").is_symlink()
    assert (tmp_path / "pm.txt").read_text() == "the PM's"
    (tmp_path / "b.log").write_text("bbb")
    (tmp_path / "b.log.1").mkdir()
    (tmp_path / "b.log.1/work").write_text("kept")
    trim_log(str(tmp_path), "b.log", 2)
    assert (tmp_path / "b.log.1").read_text() == "bb"
    (aside,) = tmp_path.glob("b.log.1.aside-*")
    assert (aside / "work").read_text() == "kept"


@needs_root
def test_on_a_full_disk_the_log_is_cut_first(tmp_path: Path) -> None:
    """Its own end then has the room that it gave up."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=True)
    try:
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "x.log").write_bytes(b"z" * (2 << 20))
        trim_log(str(tmp_path), "x.log", 10_000)
        assert (tmp_path / "x.log.1").read_bytes() == b"z" * 10_000
        assert (tmp_path / "x.log").stat().st_size == 0
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@needs_root
def test_as_the_cell_only_its_own_logs_are_cut(tmp_path: Path) -> None:
    """The kernel refuses another's; its own goes."""
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path != Path("/"):
            os.chmod(path, path.stat().st_mode | 0o011)
    cell = Identity(54_321, 54_321)
    logs = tmp_path / "logs"
    logs.mkdir()
    os.chown(logs, 54_321, 54_321)
    (logs / "keeps.log").write_text("keep")
    (logs / "own.log").write_text("own")
    os.chown(logs / "own.log", 54_321, 54_321)
    with cell.acting():
        trim_log(str(logs), "own.log", 2)
        with pytest.raises(PermissionError):
            trim_log(str(logs), "keeps.log", 2)
    assert (logs / "keeps.log").read_text() == "keep"
    assert (logs / "own.log.1").read_text() == "wn"
    assert (logs / "own.log.1").stat().st_uid == 54_321
