"""What rings the watcher, what it takes out of the directory of signals."""

from __future__ import annotations

import os
import select
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from infra.keep.supervision.inbox import Inbox
from infra.keep.supervision.wake import Wake
from infra.shared.signals import Signal, SignalName, write_signal


def rings(wake: Wake, seconds: float) -> bool:
    level = bool(select.select([wake.fd], [], [], seconds)[0])
    wake.quiet()
    return level


@pytest.mark.fault("F22")
def test_a_signal_rings_and_nothing_else_does(tmp_path: Path) -> None:
    """However many files of other names come into the directory; without a directory the looks have to do."""
    wake = Wake()
    with capture_logs() as logs:
        wake.on_signals_in(str(tmp_path / "gone"), structlog.get_logger())
    assert [entry["event"] for entry in logs] == ["watch.unavailable"]
    wake.on_signals_in(str(tmp_path), structlog.get_logger())
    for number in range(100):
        (tmp_path / f"x{number}").touch()
    assert not rings(wake, 0.2)
    write_signal(str(tmp_path), Signal(SignalName.BOOTSTRAP, "main"))
    assert rings(wake, 30.0)


KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK),
    "directory": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path),
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a terabyte of nothing": lambda path: subprocess.run(["truncate", "--size=1T", path], check=True),
}


@pytest.mark.fault("F23")
@pytest.mark.attack("S18")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_small_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """One refusal, nobody waits, and the next signal counts."""
    box, path = Inbox(str(tmp_path)), tmp_path / "bootstrap"
    KINDS[kind](path)
    [claimed] = box.take(0.0, 0.0)
    assert (claimed.request, bool(claimed.refusal), box.forget(claimed)) == (None, True, True)
    path.write_text("better\n")
    [claimed] = box.take(0.0, 2.0)
    assert claimed.request
    assert claimed.request.target == "better"


@pytest.mark.fault("F26")
def test_a_signal_file_that_stays_is_handed_out_once(tmp_path: Path) -> None:
    """What cannot be deleted is not acted on at every look; what was not decided upon is handed out by the next."""
    box = Inbox(str(tmp_path))
    (tmp_path / "bootstrap").write_text("better\n")
    assert [claimed.request.target for claimed in box.take(0.0, 1.0) if claimed.request] == ["better"]
    (tmp_path / ".claimed-bootstrap").rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / ".claimed-bootstrap")
    assert box.take(0.0, 2.0) == []
    assert os.listdir(tmp_path) == [], "its deletion was tried again"
    (tmp_path / "bootstrap").write_text("other\n")
    assert [claimed.request.target for claimed in box.take(0.0, 3.0) if claimed.request] == ["other"]
    assert len(Inbox(str(tmp_path)).take(0.0, 0.0)) == 1


@pytest.mark.fault("F26")
def test_directories_as_signals_are_all_taken_away(tmp_path: Path) -> None:
    """However many there were: each goes, and none is refused twice."""
    box = Inbox(str(tmp_path))
    for number in range(120):
        (tmp_path / "rollback").mkdir()
        (tmp_path / "rollback/inside").touch()
        claims = box.take(0.0, 10.0 * number)
        assert [bool(claimed.refusal) for claimed in claims] == [True]
        assert box.forget(claims[0])
        assert box.take(0.0, 10.0 * number + 2.0) == []


@pytest.mark.fault("F21")
def test_of_a_flood_one_is_taken_each_second_the_newest(tmp_path: Path) -> None:
    """And what else lies there is never looked at."""
    box, taken = Inbox(str(tmp_path)), []
    for number in range(100):
        (tmp_path / f"x{number}").touch()
        (tmp_path / "bootstrap").write_text(f"b{number}\n")
        claims = box.take(0.0, 10.0 + number / 20)
        taken += [claimed.request.target for claimed in claims if claimed.request and box.forget(claimed)]
    assert taken == ["b0", "b20", "b40", "b60", "b80"]


@pytest.mark.fault("F19")
def test_two_signals_within_a_tick_of_the_clock_are_two(tmp_path: Path) -> None:
    """A file that takes the number of the one before, in the same tick: its content tells it apart. The control: with
    the same content it is the one that could not be deleted."""
    box = Inbox(str(tmp_path))
    signal_file, other_name = tmp_path / "bootstrap", tmp_path / "same-number"
    taken = []
    for number, target in enumerate(("better", "best", "best")):
        if other_name.exists():
            other_name.rename(signal_file)
        signal_file.write_text(f"{target}\n")
        os.utime(signal_file, ns=(1, 1))
        os.link(signal_file, other_name)
        for claimed in box.take(10.0, 10.0 * number):
            assert claimed.request
            taken.append(claimed.request.target)
            assert box.forget(claimed)
    assert taken == ["better", "best"]


def test_what_stands_in_the_place_of_the_directory_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / ".signal"
    path.symlink_to("/nonexistent")
    Inbox(str(path)).make()
    assert path.is_dir()
    assert not path.is_symlink()
