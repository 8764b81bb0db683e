"""`read_file` and `write_file`: whole or with a note, there or not there."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.tools.files import READ_BYTES, file_tools
from infra.cell.tools.tool import Toolbox

LIMIT = 400


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(file_tools(str(tmp_path), LIMIT))


def read(box: Toolbox, path: str, **more: object) -> ToolResult:
    return box.call(ToolCall("call", "read_file", {"path": path, **more}))


def write(box: Toolbox, path: str, content: str) -> ToolResult:
    return box.call(ToolCall("call", "write_file", {"path": path, "content": content}))


def test_a_file_is_read_as_it_is(box: Toolbox, tmp_path: Path) -> None:
    """By a path from the checkout or an absolute one, to the byte; of long text both ends, and how much is missing."""
    (tmp_path / "a").write_text("one\r\n\ttwo\n")
    assert read(box, "a").shown == read(box, str(tmp_path / "a")).shown == "one\r\n\ttwo\n"
    (tmp_path / "a").write_text("x" * 1000)
    assert f"{1000 - LIMIT} of 1000 characters left out" in read(box, "a").shown


@pytest.mark.parametrize(
    ("content", "more", "shown"),
    [
        ("0\n1\n2\n", {"offset": 2}, "2\n[lines 3 to 3 of 3]"),
        ("0\n1\n2\n", {"limit": 2}, "0\n1\n[lines 1 to 2 of 3]"),
        ("0\n1\n2\n", {"offset": 1, "limit": 1}, "1\n[lines 2 to 2 of 3]"),
        ("0\n1\n2\n", {"offset": 3}, "[the file has 3 lines]"),
        ("0\n1\n2\n", {"offset": 0, "limit": 5}, "0\n1\n2\n"),
        ("a\x0cb\u2028c\rd\nlast", {"offset": 1}, "last\n[lines 2 to 2 of 2]"),
    ],
)
def test_a_part_of_the_lines_can_be_asked_for(
    box: Toolbox, tmp_path: Path, content: str, more: dict[str, int], shown: str
) -> None:
    """The answer says which lines of how many it shows, counted as sed does; the whole needs no note."""
    (tmp_path / "a").write_bytes(content.encode())

    assert read(box, "a", **more).shown == shown


def test_a_huge_file_is_read_in_part(box: Toolbox, tmp_path: Path) -> None:
    """A sparse file of a terabyte costs no more than the bound, and the answer says what was read."""
    with open(tmp_path / "a", "wb") as file:
        file.write(b"x" * READ_BYTES)
        file.truncate(1 << 40)

    reply = read(box, "a")

    assert f"only the first {READ_BYTES} of {1 << 40} bytes were read" in reply.shown
    assert len(reply.shown) < LIMIT + 300


def test_text_that_is_not_utf_8_says_so(box: Toolbox, tmp_path: Path) -> None:
    """Who writes it back would change it, so the reader is told; text that holds that very character is not suspect."""
    (tmp_path / "a").write_bytes(b"caf\xe9\n")
    (tmp_path / "b").write_text("\ufffd\n")

    assert read(box, "a").shown == "caf\ufffd\n[what is not UTF-8 is shown as \ufffd]"
    assert read(box, "b").shown == "\ufffd\n"


def test_what_is_no_text_file_is_refused_in_words(box: Toolbox, tmp_path: Path) -> None:
    """A directory, a device, a FIFO, a socket, a binary file, nothing: none blocks, each is named."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "binary").write_bytes(b"ELF\0")
    os.mkfifo(tmp_path / "fifo")
    directory = os.open(tmp_path, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{directory}/sock")  # the path itself may be too long for a socket
    os.close(directory)

    for path, words in {
        "dir": "is a directory",
        "/dev/zero": "is no regular file",
        "fifo": "is no regular file",
        "sock": "is no regular file",
        "binary": "is binary (4 bytes)",
        "nothing": "does not exist",
        "dir/nothing": "does not exist",
        "": "matching regex",
        "a\0b": "matching regex",
        "~/a": "matching regex",
    }.items():
        reply = read(box, path)
        assert not reply.ok, path
        assert words in reply.shown


def test_a_file_keeps_its_mode_and_a_new_one_gets_the_usual(box: Toolbox, tmp_path: Path) -> None:
    """A script stays executable."""
    (tmp_path / "script").write_text("old")
    (tmp_path / "script").chmod(0o750)
    before = os.umask(0o022)
    try:
        write(box, "script", "new")
        write(box, "plain", "new")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "script").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o644


def test_what_cannot_be_written_is_refused_and_stays(box: Toolbox, tmp_path: Path) -> None:
    """A directory, a FIFO, a path through a file: an error in words, and nothing left over."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("old")
    os.mkfifo(tmp_path / "fifo")
    before = sorted(os.listdir(tmp_path))

    for path in ("dir", "fifo", "file/below", "/dev/null", "/proc/nothing"):
        assert not write(box, path, "new").ok, path
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "file").read_text() == "old"


def test_a_file_that_has_changed_since_it_was_read_is_edited_and_told_of(box: Toolbox, tmp_path: Path) -> None:
    def edit(**more: object) -> ToolResult:
        return box.call(ToolCall("call", "edit_file", {"path": "a", **more}))

    (tmp_path / "a").write_text("one\ntwo\n")
    assert edit(old="one", new="1").shown == "replaced 1 in a"
    assert edit(old="three", new="3").shown.endswith("Read the file, and copy old from it")
    assert edit(old="1", new="2", count=0).error_code == "validation_error"
    (tmp_path / "a").write_text("1\nelse\n")
    assert "[warning: the file has changed since" in edit(old="1", new="2").shown
    assert (tmp_path / "a").read_text() == "2\nelse\n"


def test_a_file_is_deleted_and_a_link_itself(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "to").symlink_to("a")

    def delete(path: str) -> ToolResult:
        return box.call(ToolCall("call", "delete_file", {"path": path}))

    assert delete("to").shown == "deleted to"
    assert os.listdir(tmp_path) == ["a"]
    assert "Is a directory" in delete(".").payload
    assert delete("a").facts == {"path": "a"}
    assert "No such file" in delete("a").payload
