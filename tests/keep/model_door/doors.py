"""Doors of the keep as processes of their own, started as the watcher does; model doors in directories of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

from infra.cell.doors import Model
from infra.keep import arguments
from infra.shared.conversation import FIRST_MESSAGE, Completion, Message, ModelHealth, Request, Text, ToolSpec
from infra.shared.door import Health, ask, connect
from infra.shared.paths import ROOT, Paths
from tests.cell.loop.waiting import wait_for

SECONDS = 30.0
"""For anything that it does."""


class KeepDoor:
    """From its start to its end, and perhaps another; with the PM's settings, as text. `with` starts it."""

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

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

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


KEY = "sk-ant-test-0123456789abcdefghijklmnop"
BASH = ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


def a_request(directive: str = "do something", run: str = "run-1", messages: tuple[Message, ...] = ()) -> Request:
    """A conversation as the runner begins it."""
    comms = f"# COMMS\n\n## Directives\n\n- [ ] {directive}\n\n## Reports\n"
    first = Message("user", (Text(FIRST_MESSAGE),))
    return Request(("You are an agent.", comms), (first, *messages), (BASH,), run)


class DoorProcess(KeepDoor):
    """`openai_key`: is there when it starts."""

    def __init__(self, directory: Path, settings: dict[str, Any], openai_key: str = "") -> None:
        self._run = tempfile.TemporaryDirectory(prefix="door-")  # a socket's path must be short
        places = Paths(f"{directory}/bot", f"{directory}/remote", self._run.name, f"{directory}/var")
        super().__init__("model_door", places.model_socket, places, directory, json.dumps(settings))
        self.model = Model(places.model_socket)
        if openai_key:
            os.makedirs(places.secrets, mode=0o700)
            path = Path(places.secrets, "openai_api_key")
            path.touch(0o600)
            path.write_text(openai_key)

    def stop(self) -> None:
        super().stop()
        self._run.cleanup()

    def complete(self, request: Request | None = None) -> Completion:
        return self.model.complete(request or a_request(), SECONDS)

    def health(self) -> ModelHealth:
        answer = ask(self.places.model_socket, Health(), ModelHealth, SECONDS)
        assert isinstance(answer, ModelHealth)
        return answer

    def ledger(self, event: str = "") -> list[dict[str, Any]]:
        """All lines that are whole, or those of one kind."""
        path = Path(self.places.ledger)
        texts = path.read_text().splitlines() if path.exists() else []
        lines = [json.loads(text) for text in texts if text.endswith("}")]
        return [line for line in lines if event in ("", line["event"])]
