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
from tests.shared.repository.history import bare_repository, commit

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    """A bare repository with a main, and the directories of one agent; nothing runs."""
    places = Paths(*(str(tmp_path / name) for name in ("bot", "remote.git", "run", "var")))
    for path in (f"{places.main_checkout}/logs", places.run, places.var):
        os.makedirs(path)
    commit(bare_repository(Path(places.remote)), {"file": "1"})
    return places


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python programs; each is ended, with its process group, and waited for."""
    started = []

    def begin(program: str, *words: str, **how: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-I", "-S", "-c", program, *words], start_new_session=True, **how
        )
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
