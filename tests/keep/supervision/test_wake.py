"""What rings the watcher: also after the directory that it watches was replaced, or its watching thread has ended."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from infra.keep.supervision import inbox
from infra.keep.supervision.wake import Wake
from infra.shared.signals import Signal, SignalName, write_signal
from tests.keep.supervision.agents import within


@pytest.fixture
def wake() -> Iterator[Wake]:
    made = Wake(structlog.get_logger())
    yield made
    made.close()


def rings(wake: Wake, seconds: float = 5.0) -> bool:
    level = bool(select.select([wake.fd], [], [], seconds)[0])
    wake.quiet()
    return level


def removed(directory: Path, _: Wake) -> None:
    directory.rmdir()
    directory.mkdir()


def replaced(directory: Path, _: Wake) -> None:
    directory.rename(directory.with_name("aside"))
    directory.mkdir()


def ended(_: Path, wake: Wake) -> None:
    wake.close()


@pytest.mark.parametrize("fault", [removed, replaced, ended])
def test_a_watch_that_is_gone_is_renewed(tmp_path: Path, wake: Wake, fault: Callable[[Path, Wake], None]) -> None:
    """Fault: the directory of signals is removed or replaced, or the thread that watches it ends; expected: the next
    looks watch it anew, the log says so, and a signal rings at once."""
    directory = tmp_path / ".signal"
    directory.mkdir()
    wake.on_files_in(str(directory), inbox.NAMES, 0.0)
    write_signal(str(directory), Signal(SignalName.BOOTSTRAP, "main"))
    assert rings(wake), "the control"
    (directory / "bootstrap").unlink()
    fault(directory, wake)
    with capture_logs() as logs:
        began = time.monotonic()

        def renewed() -> bool:
            wake.on_files_in(str(directory), inbox.NAMES, 10.0 + time.monotonic() - began)
            return bool(logs)

        within(30.0, renewed, "another watch")
        assert [entry["event"] for entry in logs] == ["watch.renewed"]
    wake.quiet()
    write_signal(str(directory), Signal(SignalName.BOOTSTRAP, "main"))
    assert rings(wake)


def test_what_is_no_signal_rings_nobody(tmp_path: Path, wake: Wake) -> None:
    """However many files of other names come into the directory."""
    wake.on_files_in(str(tmp_path), inbox.NAMES, 0.0)
    for number in range(100):
        (tmp_path / f"x{number}").touch()
    (tmp_path / "rollback").touch()
    assert rings(wake), "the control"
    for number in range(100):
        (tmp_path / f"y{number}").touch()
    assert not rings(wake, 0.2)
