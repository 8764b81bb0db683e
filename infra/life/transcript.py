"""The record of one unit of work: a file of JSON lines, one for its opening, each model call and each tool result.

Best effort, like every log: a unit goes on without its record when the disk refuses."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from infra.contract.clock import timestamp
from infra.contract.conversation import Request, block_to_dict, completion_to_dict, request_to_dict
from infra.life.events import Log
from infra.loop.loop import Acted, Answered, Happening, Outcome

SCHEMA = "minifram.transcript/1"


class Transcript:
    """Appends to the file at `path`, each line in one write."""

    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._broken = False

    def opened(self, request: Request) -> None:
        self._append("opened", {"schema": SCHEMA, **request_to_dict(request)})

    def happened(self, happening: Happening) -> None:
        match happening:
            case Answered(step, completion, seconds):
                self._append("answered", {"step": step, "seconds": round(seconds, 3), **completion_to_dict(completion)})
            case Acted(step, call, reply, seconds):
                result = {"content": reply.content, "is_error": reply.is_error}
                self._append(
                    "acted", {"step": step, "seconds": round(seconds, 3), "call": block_to_dict(call), **result}
                )

    def ended(self, outcome: Outcome) -> None:
        self._append("ended", {"end": outcome.end.value, "steps": outcome.steps, "failure": str(outcome.failure or "")})

    def _append(self, kind: str, facts: dict[str, Any]) -> None:
        line = json.dumps({"at": timestamp(time.time()), "kind": kind, **facts}) + "\n"
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(self._path, "ab", buffering=0) as file:
                file.write(line.encode())
        except OSError as error:
            if not self._broken:
                self._log.warning("transcript.not_written", path=self._path, error=str(error))
            self._broken = True
