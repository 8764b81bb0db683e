"""Real model door processes for the tests, each in a directory of its own, as the watcher starts them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from infra.cell.doors import Model, ModelFailure
from infra.keep import arguments
from infra.shared.conversation import FIRST_MESSAGE, Completion, Message, ModelHealth, Request, Text, ToolSpec
from infra.shared.door import connect
from infra.shared.paths import Paths

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-ant-test-0123456789abcdefghijklmnop"
BASH = ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
DEADLINE_SECONDS = 30.0


def a_request(directive: str = "do something", run: str = "run-1", messages: tuple[Message, ...] = ()) -> Request:
    """A conversation as the runner begins it."""
    comms = f"# COMMS\n\n## Directives\n\n- [ ] {directive}\n\n## Reports\n"
    first = Message("user", (Text(FIRST_MESSAGE),))
    return Request(("You are an agent.", comms), (first, *messages), (BASH,), run)


class DoorProcess:
    """A door, from its start to its end."""

    def __init__(
        self,
        directory: Path,
        settings: dict[str, Any],
        key: str | None = None,
        key_name: str = "anthropic_api_key",
        **env: str,
    ) -> None:
        # A unix socket's path is short, and pytest's directories are not.
        self._run = tempfile.TemporaryDirectory(prefix="door-")
        self.places = Paths(
            bot=str(directory / "bot"), remote=str(directory / "remote"), run=self._run.name, var=str(directory / "var")
        )
        self.directory = directory
        self.env = env
        self.settings_file = directory / "minifram.yaml"
        directory.mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(yaml.safe_dump(settings))
        if key is not None:
            self.write_key(key, name=key_name)
        self.log_file = directory / "door.log"
        self.process: subprocess.Popen[bytes] | None = None

    def write_key(self, key: str, mode: int = 0o600, name: str = "anthropic_api_key") -> None:
        os.makedirs(self.places.secrets, mode=0o700, exist_ok=True)
        path = Path(self.places.secrets) / name
        path.write_text(key)
        path.chmod(mode)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process; it may not answer yet, or never."""
        words = [sys.executable, "-s", "-P", "-m", "infra.model_door"]
        words += arguments.words(str(self.settings_file), self.places)
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)} | self.env
        for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
            if name in os.environ:
                env[name] = os.environ[name]
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                words, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self.process

    def start(self) -> DoorProcess:
        process = self.launch()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise AssertionError(f"the door ended with {process.returncode}: {self.log()}")
            try:
                self.health()
            except ModelFailure:
                time.sleep(0.01)
            else:
                return self
        raise AssertionError(f"the door did not answer within {DEADLINE_SECONDS} s: {self.log()}")

    def signal(self, number: int) -> int:
        """Send a signal and give the exit status that follows."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self._run.cleanup()

    def complete(self, request: Request | None = None, timeout_seconds: float = DEADLINE_SECONDS) -> Completion:
        return self.model.complete(request or a_request(), timeout_seconds)

    @property
    def model(self) -> Model:
        return Model(self.places.model_socket)

    def health(self) -> ModelHealth:
        return self.model.health(DEADLINE_SECONDS)

    def send(self, line: bytes) -> dict[str, Any]:
        """One line, as it is, and what comes back."""
        with connect(self.places.model_socket, DEADLINE_SECONDS) as door:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                door.sendall(line + b"\n")
            with door.makefile("rb") as answers:
                told: dict[str, Any] = json.loads(answers.readline())
        return told

    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(self.places.ledger).read_text().splitlines()]

    def open_calls(self) -> list[str]:
        """Calls that were reserved and never settled."""
        lines = self.ledger()
        settled = {line["id"] for line in lines if line["event"] == "settled"}
        return [line["id"] for line in lines if line["event"] == "opened" and line["id"] not in settled]

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def __enter__(self) -> DoorProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
