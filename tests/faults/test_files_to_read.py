"""Files that the watcher reads and the agent writes, of every kind that there is: each look ends at once."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.boot_files import boot_words
from infra.keep.supervision.inbox import Inbox
from infra.shared import boot
from infra.shared.boot import BootLine
from infra.shared.clock import timestamp
from infra.shared.safe_files import Below

TERABYTE = 1 << 40


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(TERABYTE)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path has to be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def _device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # zero


def _circle(path: Path) -> None:
    path.symlink_to(path)


KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "socket": _socket,
    "device": _device,
    "directory": Path.mkdir,
    "link to itself": _circle,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("/etc/hostname"),
    "a terabyte of nothing": _sparse,
}


@pytest.mark.fault("F23")
@pytest.mark.attack("S18")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_signal_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """Fault: anything but a small plain file stands in a signal's place; expected: one refusal, nobody waits, and the
    next signal counts."""
    box = Inbox(str(tmp_path / ".signal"))
    box.make()
    path = tmp_path / ".signal/bootstrap"
    KINDS[kind](path)
    [claimed] = box.take(time.time(), 0.0)
    assert claimed.request is None
    assert claimed.refusal
    assert box.forget(claimed)
    path.write_text("better\n")
    [claimed] = box.take(time.time(), 2.0)
    assert claimed.request
    assert claimed.request.target == "better"


BOOT, COMMIT = "b" * 32, "c" * 40


def _said(*words: str, boot_id: str = BOOT) -> str:
    return "".join(boot.format_line(BootLine(timestamp(0.0), word, "main", COMMIT, boot_id, {})) for word in words)


def _of_ten_gigabytes(path: Path) -> None:
    """With good lines at the very beginning, which is further back than anybody looks."""
    path.write_text(_said("BOOTSTRAPPING", "SUCCESS"))
    os.truncate(path, 10 << 30)


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


NOT_GOOD: dict[str, Callable[[Path], object]] = {
    **{kind: KINDS[kind] for kind in ("FIFO", "device", "directory", "link to /dev/zero", "link to itself")},
    "missing": lambda path: None,
    "empty": _text(""),
    "no SUCCESS": _text(_said("BOOTSTRAPPING")),
    "SUCCESS alone": _text(_said("SUCCESS")),
    "SUCCESS first": _text(_said("SUCCESS", "BOOTSTRAPPING")),
    "of another boot": _text(_said("BOOTSTRAPPING", "SUCCESS", boot_id="d" * 32)),
    "cut in its last line": _text(_said("BOOTSTRAPPING", "SUCCESS")[:-1]),
    "of ten gigabytes": _of_ten_gigabytes,
}


@pytest.mark.fault("F27", "F28")
@pytest.mark.parametrize("kind", NOT_GOOD)
def test_a_boot_log_that_is_not_good(tmp_path: Path, kind: str) -> None:
    """Fault: the boot log is missing, of another kind, endless, or does not say what it has to; expected: no SUCCESS is
    read of it, at once; the control: a good one behind as much else as that is read."""
    bot, log = Below(str(tmp_path)), tmp_path / "main/logs/bootstrap.log"
    log.parent.mkdir(parents=True)
    NOT_GOOD[kind](log)
    assert "SUCCESS" not in boot_words(bot, "main", BOOT, "main", COMMIT)
    if log.is_dir() and not log.is_symlink():
        log.rmdir()
    elif log.is_symlink() or log.exists():
        log.unlink()
    log.write_text("x" * 1000 + "\n" + _said("BOOTSTRAPPING", "SUCCESS"))
    assert "SUCCESS" in boot_words(bot, "main", BOOT, "main", COMMIT)
