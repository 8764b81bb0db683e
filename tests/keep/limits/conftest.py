from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.shared.paths import Paths

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    """The directories of one agent; nothing runs."""
    places = Paths(*(str(tmp_path / name) for name in ("bot", "remote.git", "run", "var")))
    for path in (f"{places.main_checkout}/logs", places.run, places.var):
        os.makedirs(path)
    return places


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python programs; each is ended, with its process group, and waited for."""
    started = []

    def begin(program: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", program], start_new_session=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
