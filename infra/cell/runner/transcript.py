"""The record of a run: a file of JSON lines: its opening, each answer of the model, each call before and after it is
carried out, what the model was told, and the end. Another runner can resume the run by it. Keys are left out.

Best effort, like every log: when the disk refuses, the run continues without its record, and the name says so."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from infra.cell.doors import ModelFailure
from infra.cell.log import Log
from infra.cell.loop.context.context import Summarised
from infra.cell.loop.loop import Acted, Acting, Answered, Entered, Event, RunResult, Told
from infra.cell.loop.recorded import OPENED
from infra.cell.loop.ways import News
from infra.shared.boot import TOOLS
from infra.shared.clock import timestamp
from infra.shared.conversation import Request, ToolUse, to_plain
from infra.shared.redacted_file import RedactedFile

SCHEMA = "minifram.transcript/2"
SUFFIX, GAPS = ".jsonl", ".gaps"


class Transcript:
    """Appends to the file at `path`, each line in one write."""

    def __init__(self, path: str, run_id: str, log: Log) -> None:
        self._path = path
        self._run_id = run_id
        self._log = log
        self._broken = False
        self._entered: list[str] = []
        """States of the run that no line tells of yet."""

    def opened(self, request: Request, directives: Sequence[str], most_steps: int, acts: str = TOOLS) -> None:
        """`directives`: ids of those that the run is about."""
        facts = {"schema": SCHEMA, "machine": machine_boot(), "directives": list(directives), "most_steps": most_steps}
        self._append(OPENED[acts], facts | to_plain(request))

    def resumed(self, boot_id: str, commit: str) -> None:
        """Another runner resumes the run."""
        self._end_torn_line()
        self._append("resumed", {"boot_id": boot_id, "commit": commit})

    def add(self, event: Event) -> None:
        if isinstance(event, Entered):  # the next line tells of it
            self._entered.append(event.state.value)
            return
        try:
            kind, facts = line_of(event)
        except (ValueError, RecursionError) as error:
            self._lacks_a_line(error)
            return
        self._append(kind, facts)

    def model_failed(self, failure: ModelFailure, wait_seconds: float | None) -> None:
        """A model call failed; it is made again after `wait_seconds`, or by a later run."""
        facts = {"type": failure.type, "message": failure.message, "wait_seconds": wait_seconds}
        self._append("model_failed", facts)

    def ended(self, result: RunResult) -> None:
        self._append("ended", {"end": result.reason.value, "steps": result.steps, "failure": str(result.failure or "")})

    def _end_torn_line(self) -> None:
        """A power cut may have left half a line."""
        with contextlib.suppress(OSError):
            RedactedFile(self._path).end_torn_line()

    def _append(self, kind: str, facts: dict[str, Any]) -> None:
        facts = {"at": timestamp(time.time()), "kind": kind, "run_id": self._run_id, **facts}
        if self._entered:
            facts["states"], self._entered = self._entered, []
        try:
            RedactedFile(self._path).append_json(facts)
        except (OSError, ValueError, RecursionError) as error:  # a full disk, or what no line can hold
            self._lacks_a_line(error)

    def _lacks_a_line(self, error: Exception) -> None:
        """A runner that resumed such a record would do again what it lacks, so its name says that it has gaps: a full
        disk still renames files."""
        if not self._broken:
            self._broken = True
            self._log.warning("transcript.not_written", path=self._path, error=str(error))
            gapped = self._path.removesuffix(SUFFIX) + GAPS + SUFFIX
            with contextlib.suppress(OSError):
                os.rename(self._path, gapped)
                self._path = gapped


def line_of(event: Acting | Acted | Answered | Told | Summarised) -> tuple[str, dict[str, Any]]:
    """Kind and facts of its line."""
    step = {"step_id": str(event.step)}
    match event:
        case Answered(_, completion, seconds):
            return "answered", step | {"duration_ms": round(seconds * 1000)} | to_plain(completion)
        case Acting(_, number, call):
            place = {"step_id": f"{event.step}.{number}"}
            return "acting", place | {"tool_name": call.name, "args_hash": args_hash(call.args)}
        case Acted(_, number, call, result, seconds):
            return "acted", {
                "step_id": f"{event.step}.{number}",
                "tool_name": call.name,
                "args_hash": args_hash(call.args),
                "duration_ms": round(seconds * 1000),
                "status": result.status,
                "error_code": result.error_code or None,
                "artifacts": list(result.artifacts),
                "hands_over": result.hands_over,
                "policy_flags": list(result.policy_flags),
                "call": to_plain(ToolUse(call.id, call.name, dict(call.args))),
                "content": result.payload,
                "hint": result.hint,
                "facts": dict(result.facts),
            } | ({} if result.ok else {"detail": result.detail, "retriable": result.retriable})
        case Told(_, text, steered):
            by = {"pm": steered.pm, "runtime": steered.runtime} if isinstance(steered, News) and steered.pm else {}
            return "told", step | {"text": text, "steered": steered} | by
        case Summarised():
            return "summed_up", step | {
                "duration_ms": round(event.seconds * 1000),
                "by": "model" if event.by_model else "record",
                "usage": [to_plain(answer.usage) for answer in event.answers],
                "tokens_before": event.tokens_before,
                "tokens_after": event.tokens_after,
                "content": event.words,
            }


def args_hash(given: Mapping[str, Any]) -> str:
    """Of the arguments as given, not as written down; independent of their order."""
    return hashlib.sha256(json.dumps(dict(given), sort_keys=True).encode()).hexdigest()


def machine_boot() -> str:
    """Which start of the machine this is: what was written before a power cut may be lost in part."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
