"""Real model door processes for the tests, each in a directory of its own."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from infra.cell.doors import Model
from infra.shared.conversation import FIRST_MESSAGE, Completion, Message, ModelHealth, Request, Text, ToolSpec
from infra.shared.door import Health, ask
from infra.shared.paths import Paths
from tests.keep import door_process
from tests.keep.door_process import SECONDS

KEY = "sk-ant-test-0123456789abcdefghijklmnop"
BASH = ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


def a_request(directive: str = "do something", run: str = "run-1", messages: tuple[Message, ...] = ()) -> Request:
    """A conversation as the runner begins it."""
    comms = f"# COMMS\n\n## Directives\n\n- [ ] {directive}\n\n## Reports\n"
    first = Message("user", (Text(FIRST_MESSAGE),))
    return Request(("You are an agent.", comms), (first, *messages), (BASH,), run)


class DoorProcess(door_process.DoorProcess):
    """`with` starts it; `openai_key`: is there when it starts."""

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

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

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
