"""Files that are replaced whole: a reader sees the old or the new, whatever happens to the writer."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from host.home import sync_tree
from infra.shared.files import write_whole
from tests.cell.loop.records import no_room_beyond


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    """The new content, the asked mode, no temporary file."""
    path = tmp_path / "state.json"
    write_whole(str(path), b"old")
    write_whole(str(path), b"new\x00\xff", 0o600)
    assert path.read_bytes() == b"new\x00\xff"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_write_that_meets_a_limit_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """Cut short by the kernel: old content, no temporary file, an OSError; with room it succeeds."""
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    with no_room_beyond(50_000):
        with pytest.raises(OSError, match="File too large"):
            write_whole(str(path), b"n" * 100_000)
        assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["state.json"])
        write_whole(str(path), b"n" * 10_000)
    assert path.read_bytes() == b"n" * 10_000


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    """What the link led to stays as it is."""
    target, path = tmp_path / "target", tmp_path / "path"
    target.write_bytes(b"target")
    path.symlink_to(target)
    write_whole(str(path), b"new")
    assert not path.is_symlink()
    assert (path.read_bytes(), target.read_bytes()) == (b"new", b"target")


def test_a_directory_in_the_way_is_an_error_and_stays(tmp_path: Path) -> None:
    """The rename fails; the temporary file is gone."""
    (tmp_path / "path").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(str(tmp_path / "path"), b"new")
    assert os.listdir(tmp_path) == ["path"]


def test_a_name_without_a_directory_is_written_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary file lies beside it, not at the root of the file system."""
    monkeypatch.chdir(tmp_path)
    write_whole("here", b"new")
    assert (tmp_path / "here").read_bytes() == b"new"


@pytest.mark.parametrize("left", ["file", "fifo", "link"])
def test_what_lies_at_the_temporary_name_is_removed_and_never_opened(tmp_path: Path, left: str) -> None:
    """A killed writer's rest, a pipe that would block and a link that leads away are all the same to us."""
    other = tmp_path / "other"
    other.write_bytes(b"other")
    temporary = tmp_path / f".path.{os.getpid()}.{threading.get_ident()}.tmp"
    match left:
        case "file":
            temporary.write_bytes(b"x" * 100)
            temporary.chmod(0o666)
        case "fifo":
            os.mkfifo(temporary)
        case "link":
            temporary.symlink_to(other)
    write_whole(str(tmp_path / "path"), b"new", 0o600)
    assert (tmp_path / "path").read_bytes() == b"new"
    assert (tmp_path / "path").stat().st_mode & 0o777 == 0o600
    assert other.read_bytes() == b"other"
    assert sorted(os.listdir(tmp_path)) == ["other", "path"]


def test_a_tree_is_synced_with_all_that_is_in_it(tmp_path: Path) -> None:
    """Nothing that only looks like a part of it is followed: that is somebody else's."""
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/file").write_text("x")
    (tmp_path / "tree/away").symlink_to("/")
    sync_tree(str(tmp_path / "tree"))
    (tmp_path / "tree/a/link").symlink_to("file")
    with pytest.raises(OSError, match="symbolic links"):
        sync_tree(str(tmp_path / "tree"))
