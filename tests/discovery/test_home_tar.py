"""home.tar: what the agent packed into it cannot reach the host, its memory or its time."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from home_tar import ENTRIES, TAR_BYTES, read_home
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_files import Unreadable
from run_values import Home

from tests.discovery.runs_made import home_tar

MAP = "/home/agent/MAP.md"


def read(place: Path, content: bytes) -> Home:
    path = place / "home.tar"
    path.write_bytes(content)
    home = read_home(path)
    assert home is not None
    return home


def packed(fill: Callable[[tarfile.TarFile], None], kind: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        fill(tar)
    return out.getvalue()


def put(tar: tarfile.TarFile, name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.linkname = kind, len(content), link
    tar.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_files_are_read_in_every_format_that_engines_write(tmp_path: Path, kind: int) -> None:
    """With long names, and with content where it matters."""
    deep = "/".join(["d" * 60] * 3)
    long = f"agent/{'e' * 80}/{'f' * 90}" if kind == tarfile.USTAR_FORMAT else f"agent/{deep}/{'ä' * 90}.txt"

    def fill(tar: tarfile.TarFile) -> None:
        put(tar, "agent/", kind=tarfile.DIRTYPE)
        put(tar, "agent/MAP.md", b"map")
        put(tar, long, b"x" * 1000)
        put(tar, "agent/tools/a.sh", b"#!/bin/sh\n")

    home = read(tmp_path, packed(fill, kind))
    assert home.warnings == ()
    assert home.files[MAP].content == b"map"
    assert home.files["/home/agent/tools/a.sh"].content == b"#!/bin/sh\n"
    name = long.replace("agent/", "/home/agent/", 1)
    assert (home.files[name].size, home.files[name].content) == (1000, None)


def test_names_that_lead_out_of_the_home_are_left_out(tmp_path: Path) -> None:
    """By dots, from the root, or beside it; the rest is read, and it is told."""

    def fill(tar: tarfile.TarFile) -> None:
        for name in ("agent/../../etc/passwd", "/etc/passwd", "../MAP.md", "root/x", "agent/tools/../../x", "agentx"):
            put(tar, name, b"evil")
        put(tar, "agent/./MAP.md", b"map")

    home = read(tmp_path, packed(fill))
    assert set(home.files) == {MAP}
    assert home.warnings == ("home.tar: an entry has a name that leads out of the home; it is left out",)


def test_links_and_devices_have_no_content(tmp_path: Path) -> None:
    """They are there and no more. A hard link is the file that it names, if that is one of the archive."""

    def fill(tar: tarfile.TarFile) -> None:
        put(tar, "agent/MAP.md", kind=tarfile.SYMTYPE, link="/etc/passwd")
        put(tar, "agent/LOG.md", kind=tarfile.LNKTYPE, link="/etc/passwd")
        put(tar, "agent/fifo", kind=tarfile.FIFOTYPE)
        put(tar, "agent/null", kind=tarfile.CHRTYPE)
        put(tar, "agent/tools/a", b"a")
        put(tar, "agent/tools/b", kind=tarfile.LNKTYPE, link="agent/tools/a")

    home = read(tmp_path, packed(fill))
    assert {path for path in home.files} == {"/home/agent/tools/a", "/home/agent/tools/b"}
    assert home.files["/home/agent/tools/b"].content == b"a"
    assert {MAP, "/home/agent/LOG.md", "/home/agent/fifo", "/home/agent/null"} <= home.others


def test_of_two_files_of_a_name_the_later_counts(tmp_path: Path) -> None:
    """As when the archive is unpacked."""

    def fill(tar: tarfile.TarFile) -> None:
        put(tar, "agent/MAP.md", b"one")
        put(tar, "agent/MAP.md", b"two")
        put(tar, "agent/LOG.md", b"log")
        put(tar, "agent/LOG.md", kind=tarfile.SYMTYPE, link="MAP.md")

    home = read(tmp_path, packed(fill))
    assert home.files[MAP].content == b"two"
    assert "/home/agent/LOG.md" in home.others


@pytest.mark.parametrize("key", ["GNU.sparse.major", "GNU.sparse.map"])
def test_a_sparse_file_is_there_and_has_no_content(tmp_path: Path, key: str) -> None:
    """Its data begin with a map of holes, or stand for more than they are."""

    def fill(tar: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo("agent/MAP.md")
        entry.size, entry.pax_headers = 4, {key: "1"}
        tar.addfile(entry, io.BytesIO(b"1\n0\n"))
        put(tar, "agent/tools/a.sh", b"#!/bin/sh\n")

    home = read(tmp_path, packed(fill))
    assert (MAP in home.files, MAP in home.others) == (False, True)
    assert home.files["/home/agent/tools/a.sh"].content == b"#!/bin/sh\n"


def test_large_files_are_not_read(tmp_path: Path) -> None:
    """An artifact of more than a MiB claims nothing; an archive beyond its bound is refused."""
    home = read(tmp_path, home_tar({"MAP.md": b"x" * (1 << 21), "LOG.md": "log"}))
    assert (home.files[MAP].size, home.files[MAP].content) == (1 << 21, None)
    with open(tmp_path / "home.tar", "wb") as file:
        file.truncate(TAR_BYTES + 1)
    with pytest.raises(Unreadable, match="expected at most"):
        read_home(tmp_path / "home.tar")


def test_a_cut_archive_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """A run that was killed while its home was packed."""
    whole = home_tar({"LOG.md": "log", "MAP.md": "x" * 5000})
    home = read(tmp_path, whole[: whole.index(b"xxxx") + 100])
    assert home.files["/home/agent/LOG.md"].content == b"log"
    assert home.files[MAP].content is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 1024, b"\x1f\x8b" + b"x" * 2000, b"x" * 100, b"{}" * 4000],
    ids=["empty", "of zeros", "compressed", "short", "no tar"],
)
def test_what_is_no_archive_is_no_home(tmp_path: Path, content: bytes) -> None:
    """It is none, or an empty one."""
    with contextlib.suppress(Unreadable):
        assert not read(tmp_path, content).files


def test_more_entries_than_are_read_are_told(tmp_path: Path) -> None:
    """No archive within its bound of bytes can have more than the reader takes by much."""
    header = home_tar({"a": b""})[512:1024]
    home = read(tmp_path, header * (ENTRIES + 1))
    assert any("more than" in text for text in home.warnings)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_damage_raises_anything_but_that_it_cannot_be_read(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever bytes are changed, and wherever it ends; every path that is read lies in the home."""
    content = bytearray(home_tar({"MAP.md": "map", "tools/a": "b" * 700, "ä" * 120: "x"}))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):  # so that damage goes beyond the sum
        for begin in range(0, len(content) - 512, 512):
            block = content[begin : begin + 512]
            block[148:156] = b"        "
            content[begin + 148 : begin + 156] = b"%06o\0 " % sum(block)
    path = tmp_path / "home.tar"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        home = read_home(path)
    except Unreadable:
        return
    assert home is not None
    assert all(os.path.normpath(each).startswith("/home/agent") for each in (*home.files, *home.others))
