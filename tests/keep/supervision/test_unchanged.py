"""What is passed over because it has not changed is never something to do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.keep.supervision.inbox import Inbox
from infra.keep.supervision.unchanged import Unchanged
from infra.shared.signals import Signal, SignalName, write_signal

AT_ONCE, SOON = 0.0, 0.03


def for_some_ticks() -> Iterator[None]:
    """Of the clock that the kernel writes times of files by."""
    until = time.monotonic() + 2 * SOON
    while time.monotonic() < until:
        yield


def touched(directory: Path) -> None:
    (directory / "new").touch()


def moved_in(directory: Path) -> None:
    beside = directory.with_name("beside")
    beside.touch()
    beside.rename(directory / "moved")


def replaced(directory: Path) -> None:
    """By another whose times are the same."""
    status = directory.stat()
    other = directory.with_name("other")
    other.mkdir()
    directory.rename(directory.with_name("aside"))
    other.rename(directory)
    os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns))


def closed(directory: Path) -> None:
    directory.chmod(0o500)


def times_set_back(directory: Path) -> None:
    """Which the cell can do; the kernel's own time of the change it cannot set."""
    status = directory.stat()
    (directory / "new").touch()
    os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [touched, moved_in, replaced, closed, times_set_back])
def test_a_change_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """However it is hidden; the control: without one there is nothing to look at."""
    directory = tmp_path / "d"
    directory.mkdir()
    seen = Unchanged(str(directory), AT_ONCE)
    assert not seen.is_it(), "nobody has looked"
    seen.looked()
    for _ in for_some_ticks():
        assert seen.is_it()
    change(directory)
    assert not seen.is_it()
    assert not seen.is_it(), "nobody has looked since"


def test_what_has_just_changed_is_looked_at_again(tmp_path: Path) -> None:
    """It may change again within one tick of the clock and look the same."""
    seen = Unchanged(str(tmp_path))
    for _ in range(3):
        assert not seen.is_it()
        seen.looked()


def test_what_is_gone_is_looked_at(tmp_path: Path) -> None:
    seen = Unchanged(str(tmp_path / "gone"), AT_ONCE)
    assert not seen.is_it()
    seen.looked()
    assert not seen.is_it()


def test_signals_are_found_by_looks_alone(tmp_path: Path) -> None:
    """Each is handed out once, and one that may still be being written is waited for, whatever was passed over."""
    inbox = Inbox(str(tmp_path / ".signal"), settled_seconds=SOON)
    for number in range(3):
        for _ in for_some_ticks():
            assert inbox.take(time.time(), float(number)) == []
        write_signal(str(tmp_path / ".signal"), Signal(SignalName.BOOTSTRAP, f"branch-{number}"))
        (claimed,) = inbox.take(time.time(), float(number))
        assert claimed.request
        assert claimed.request.target == f"branch-{number}"
        assert inbox.take(time.time(), float(number)) == []
        assert not Path(claimed.path).exists(), "deleted when it was met again"
    (tmp_path / ".signal" / "bootstrap").write_text("hal")
    for _ in for_some_ticks():
        assert inbox.take(time.time(), 5.0) == []
    with open(tmp_path / ".signal" / ".claimed-bootstrap", "a") as file:
        file.write("f\n")
    (claimed,) = inbox.take(time.time(), 6.0)
    assert claimed.request
    assert claimed.request.target == "half"
