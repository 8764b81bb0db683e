"""Logs that are cut under their writers' hands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.cut_logs import cut_log
from infra.shared.safe_files import Below
from tests.faults.disks import small_disk


def test_an_endless_line_is_cut_and_its_writer_goes_on(tmp_path: Path) -> None:
    """The end is kept beside; what is written next is at the log's beginning."""
    log = tmp_path / "errors.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 50_000_000)
        writer.write(b"why it happened\n")
        assert cut_log(Below(str(tmp_path)), "errors.log", 1000) == 50_000_016
        kept = (tmp_path / "errors.log.1").read_bytes()
        assert (len(kept), kept.endswith(b"xxxwhy it happened\n")) == (1000, True)
        writer.write(b"and on\n")
    assert log.read_bytes() == b"and on\n"


@given(st.binary(max_size=200), st.integers(0, 300))
def test_exactly_the_end_is_kept(tmp_path_factory: pytest.TempPathFactory, content: bytes, most: int) -> None:
    """Of any content; a short one whole."""
    directory = tmp_path_factory.mktemp("trim")
    (directory / "x.log").write_bytes(content)
    (directory / "x.log.1").write_bytes(b"older")
    assert cut_log(Below(str(directory)), "x.log", most) == len(content)
    assert (directory / "x.log").read_bytes() == b""
    assert (directory / "x.log.1").read_bytes() == (content[-most:] if most else b"")
    assert sorted(os.listdir(directory)) == ["x.log", "x.log.1"]


def test_only_a_plain_file_is_cut(tmp_path: Path) -> None:
    """What a link leads to is left alone. Whatever else is none: `test_safe_files`."""
    (tmp_path / "bot").mkdir()
    (tmp_path / "pm.txt").write_text("the PM's")
    (tmp_path / "bot/link").symlink_to(tmp_path / "pm.txt")
    (tmp_path / "bot/outside").symlink_to(tmp_path)
    for name in ("link", "outside/pm.txt"):
        with pytest.raises(OSError, match=r"."):
            cut_log(Below(str(tmp_path / "bot")), name, 10)
    assert (tmp_path / "pm.txt").read_text() == "the PM's"
    assert sorted(os.listdir(tmp_path / "bot")) == ["link", "outside"]


def test_what_stands_where_the_end_is_kept_does_not_matter(tmp_path: Path) -> None:
    """A link there is replaced itself; a directory is moved aside, never deleted."""
    (tmp_path / "pm.txt").write_text("the PM's")
    (tmp_path / "a.log").write_text("aaa")
    (tmp_path / "a.log.1").symlink_to(tmp_path / "pm.txt")
    cut_log(Below(str(tmp_path)), "a.log", 2)
    assert (tmp_path / "a.log.1").read_text() == "aa"
    assert not (tmp_path / "a.log.1").is_symlink()
    assert (tmp_path / "pm.txt").read_text() == "the PM's"
    (tmp_path / "b.log").write_text("bbb")
    (tmp_path / "b.log.1").mkdir()
    (tmp_path / "b.log.1/work").write_text("kept")
    cut_log(Below(str(tmp_path)), "b.log", 2)
    assert (tmp_path / "b.log.1").read_text() == "bb"
    (aside,) = tmp_path.glob("b.log.1.aside-*")
    assert (aside / "work").read_text() == "kept"


def test_on_a_full_disk_the_log_is_cut_first(tmp_path: Path) -> None:
    """Its own end then has the room that it gave up."""
    with small_disk(tmp_path, "1m"):
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "x.log").write_bytes(b"z" * (2 << 20))
        cut_log(Below(str(tmp_path)), "x.log", 10_000)
        assert (tmp_path / "x.log.1").read_bytes() == b"z" * 10_000
        assert (tmp_path / "x.log").stat().st_size == 0
