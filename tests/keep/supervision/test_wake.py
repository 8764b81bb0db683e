"""What rings the watcher."""

from __future__ import annotations

import select
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

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
