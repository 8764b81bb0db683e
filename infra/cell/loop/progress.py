"""Whether a run gets on, and when it must stop: judged by what its calls showed; pure.

A step without progress is one whose calls were all made before in this run with the same arguments and the same
results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from infra.cell.actions import DENIED, FAILED, ToolCall, ToolResult
from infra.cell.run_states import StopReason

IDLE_TO_TELL, IDLE_TO_END = 4, 8
"""Steps without progress in a row: the model is told, and then the run ends."""
DENIED_TO_END = 3
"""Steps in a row of which every call was denied."""
FAILED_TO_TELL, MAX_FAILURES = 6, 12
"""Calls that failed in a row."""
IDLE = (
    f"Your last {IDLE_TO_TELL} steps only repeated calls of this run, and showed what you had seen. Do something else, "
    "or end your turn and say what is missing. If you wait for something, wait longer."
)
FAILURES = (
    f"Your last {FAILED_TO_TELL} calls failed. Look for the cause, try another way, or end your turn and say what is "
    "missing."
)


class RunConfig(NamedTuple):
    """The bounds of a run."""

    max_steps: int
    """Replies of the model."""
    max_wall_time: float
    """Seconds; looked at before each call of the model or of a tool, the last of which may pass it by its own limit."""
    max_failures: int = MAX_FAILURES


class Progress(NamedTuple):
    """Of a run so far."""

    seen: frozenset[str] = frozenset()
    """Fingerprints of its calls, each with its result."""
    idle: int = 0
    """Steps without progress in a row."""
    failed: int = 0
    """Calls that failed in a row."""
    denied: int = 0
    """Steps in a row of which every call was denied."""

    def after(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Progress:
        made = {fingerprint(call, result) for call, result in zip(calls, results, strict=True)}
        failed = self.failed
        for result in results:
            if result.ok or result.status == FAILED:  # what was not carried out is neither
                failed = failed + 1 if has_failed(result) else 0
        denied = bool(results) and all(result.status == DENIED for result in results)
        idle = self.idle + 1 if made <= self.seen else 0
        return Progress(self.seen | made, idle, failed, self.denied + 1 if denied else 0)

    def heard(self) -> Progress:
        """Somebody told the run something: what it does now may be the answer to that."""
        return self._replace(idle=0, denied=0)


def stop_reason(config: RunConfig, progress: Progress, steps: int, seconds: float) -> StopReason | None:
    """Why a run that stands so must not go on; None when it may."""
    if progress.denied >= DENIED_TO_END:
        return StopReason.POLICY_DENIED
    if progress.idle >= IDLE_TO_END:
        return StopReason.NO_OP_LOOP
    if progress.failed >= config.max_failures:
        return StopReason.MAX_FAILURES
    if steps >= config.max_steps:
        return StopReason.MAX_STEPS
    return StopReason.MAX_WALL_TIME if seconds >= config.max_wall_time else None


def words_on(before: Progress, now: Progress) -> str:
    """Words for the model after a step; empty for none."""
    told = [IDLE] if now.idle == IDLE_TO_TELL else []
    told += [FAILURES] if before.failed < FAILED_TO_TELL <= now.failed else []
    return "\n\n".join(told)


def has_failed(result: ToolResult) -> bool:
    """Also a command that ended with another status than 0, but for a search that found nothing."""
    if not result.ok:
        return True
    ended = result.facts.get("exit")
    return bool(ended) and not (ended == 1 and not result.payload and not result.facts.get("stderr"))


def fingerprint(call: ToolCall, result: ToolResult) -> str:
    """Of a call with its arguments and its result."""
    whole = [call.name, dict(call.args), result.payload, result.facts.get("stderr", "")]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()[:32]
