"""The record of one unit of work, a run: a file of JSON lines, one for its opening, each model call, each tool result
and its end. What has the shape of a key is not in it.

Best effort, like every log: a unit goes on without its record when the disk refuses."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any

from infra.contract.clock import timestamp
from infra.contract.conversation import Request, block_to_dict, completion_to_dict, request_to_dict
from infra.contract.secret_shapes import redacted_value
from infra.life.events import Log
from infra.loop.context import Shortened, SummedUp
from infra.loop.loop import Acted, Answered, Happening, Outcome

SCHEMA = "minifram.transcript/2"


class Transcript:
    """Appends to the file at `path`, each line in one write."""

    def __init__(self, path: str, run_id: str, log: Log) -> None:
        self._path = path
        self._run_id = run_id
        self._log = log
        self._broken = False

    def opened(self, request: Request) -> None:
        self._append("opened", {"schema": SCHEMA, **request_to_dict(request)})

    def happened(self, happening: Happening) -> None:
        match happening:
            case Answered(step, completion, seconds):
                told = {"step_id": str(step), "duration_ms": round(seconds * 1000)}
                self._append("answered", told | completion_to_dict(completion))
            case Acted():
                self._append("acted", acted(happening))
            case Shortened(step, blocks, before, after):
                told = {"step_id": str(step), "blocks": blocks}
                self._append("shortened", told | {"tokens_before": before, "tokens_after": after})
            case SummedUp():
                self._append("summed_up", summed_up(happening))

    def ended(self, outcome: Outcome) -> None:
        self._append("ended", {"end": outcome.end.value, "steps": outcome.steps, "failure": str(outcome.failure or "")})

    def _append(self, kind: str, facts: dict[str, Any]) -> None:
        facts = redacted_value({"at": timestamp(time.time()), "kind": kind, "run_id": self._run_id, **facts})
        line = json.dumps(facts) + "\n"
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(self._path, "ab", buffering=0) as file:
                file.write(line.encode())
        except OSError as error:
            if not self._broken:
                self._log.warning("transcript.not_written", path=self._path, error=str(error))
            self._broken = True


def acted(happening: Acted) -> dict[str, Any]:
    """A tool call and what came of it."""
    call, reply = happening.call, happening.reply
    return {
        "step_id": f"{happening.step}.{happening.number}",
        "tool_name": call.name,
        "args_hash": args_hash(call.input),
        "duration_ms": round(happening.seconds * 1000),
        "status": "error" if reply.is_error else "ok",
        "error_code": reply.error_code or None,
        "artifacts": list(reply.artifacts),
        "policy_flags": [],
        "call": block_to_dict(call),
        "content": reply.content,
    }


def summed_up(happening: SummedUp) -> dict[str, Any]:
    """A summary, and what it cost."""
    return {
        "step_id": str(happening.step),
        "duration_ms": round(happening.seconds * 1000),
        "for": "hand-over" if happening.hands_over else "compaction",
        "by": "model" if happening.by_model else "record",
        "usage": [answer.usage._asdict() for answer in happening.answers],
        "tokens_before": happening.tokens_before,
        "tokens_after": happening.tokens_after,
        "content": happening.words,
    }


def args_hash(given: dict[str, Any]) -> str:
    """The same for the same arguments, in whatever order; of what was really given, not of what is written down."""
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()
