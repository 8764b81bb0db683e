"""A door of the keep as a process of its own, started as the watcher does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.keep import arguments
from infra.shared.door import connect
from infra.shared.paths import ROOT, Paths
from tests.cell.loop.waiting import wait_for

SECONDS = 30.0
"""For anything that it does."""


class DoorProcess:
    """From its start to its end, and perhaps another; with the PM's settings, as text."""

    def __init__(self, module: str, socket: str, places: Paths, folder: Path, settings: str) -> None:
        self.places, self._socket = places, socket
        self._log, file = folder / "door.log", folder / "minifram.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(settings)
        self._words = [sys.executable, "-s", "-P", "-m", f"infra.{module}", *arguments.words(str(file), places)]
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> subprocess.Popen[bytes]:
        """It may not answer yet, or never."""
        env = {name: text for name, text in os.environ.items() if name.startswith("COVERAGE_PROCESS_")}
        env |= {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": ROOT}
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(
                self._words, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self.process

    def start(self) -> None:
        """It serves when this returns."""
        process = self.launch()
        wait_for(lambda: "door.opened" in self.log or process.poll() is not None, "a door", SECONDS)
        assert process.poll() is None, self.log
        self.say(b'{"do":"health"}')

    def signal(self, number: int) -> int:
        """The exit status that follows."""
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.signal(signal.SIGKILL)

    def say(self, line: bytes) -> dict[str, Any]:
        """One line, as it is, and what comes back."""
        with connect(self._socket, SECONDS) as door:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                door.sendall(line + b"\n")
            told: dict[str, Any] = json.loads(door.makefile("rb").readline())
        return told

    @property
    def log(self) -> str:
        """Of the last start."""
        return self._log.read_text()

    @property
    def reason(self) -> str:
        """In the last line of the log."""
        return str(json.loads(self.log.splitlines()[-1])["reason"])
