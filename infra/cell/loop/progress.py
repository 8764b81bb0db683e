"""Whether a run gets on, and when it must stop: judged by effects and not by words; pure.

A step without progress is one after which nothing is other than before: no file, no commit, no result that the run had
not seen, no word of somebody else's. One that repeats the step before it is none either, whatever it writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.protocol.shapes import DENIED, FAILED
from infra.cell.run_states import StopReason

IDLE_TO_TELL, IDLE_TO_END = 4, 8
"""Steps without progress in a row: the model is told, and then the run ends."""
DENIED_TO_END = 3
"""Steps in a row of which every call was denied."""
FAILED_TO_TELL, MAX_FAILURES = 6, 12
"""Calls that failed in a row."""
IDLE = (
    f"Your last {IDLE_TO_TELL} steps had no effect: they changed no file, made no commit and showed nothing that you "
    "had not seen, or only repeated the step before. Do something else, or end your turn and say what is missing. If "
    "you wait for something, wait longer."
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


class Effects(NamedTuple):
    """What came of one step."""

    acts: tuple[tuple[str, Mapping[str, Any], str], ...]
    """Name, arguments and result of each."""
    results: tuple[str, ...]
    """A fingerprint of each."""
    failed: tuple[bool, ...]
    """Each of those that were carried out."""
    denied: bool
    """All of them, by the policy."""
    changed: bool
    """A file or a commit."""


class Progress(NamedTuple):
    """Of a run so far."""

    seen: frozenset[str] = frozenset()
    """Results."""
    idle: int = 0
    """Steps without progress in a row."""
    failed: int = 0
    """Calls that failed in a row."""
    denied: int = 0
    """Steps in a row of which every call was denied."""
    acts: tuple[tuple[str, Mapping[str, Any], str], ...] = ()
    """Of the last step."""

    def shows_news(self, results: Sequence[str]) -> bool:
        return not self.seen.issuperset(results)

    def after(self, effects: Effects) -> Progress:
        failed = self.failed
        for each in effects.failed:
            failed = failed + 1 if each else 0
        if self.failed < FAILED_TO_TELL:  # however many calls the step had, the model is warned first
            failed = min(failed, MAX_FAILURES - 1)
        changed = effects.changed and effects.acts != self.acts
        got_on = changed or self.shows_news(effects.results)
        return Progress(
            self.seen.union(effects.results),
            0 if got_on else self.idle + 1,
            failed,
            self.denied + 1 if effects.denied else 0,
            effects.acts,
        )

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


def effects_of(calls: Sequence[ToolCall], results: Sequence[ToolResult], changed: bool = False) -> Effects:
    """`changed`: what was found of files and commits."""
    both = tuple(zip(calls, results, strict=True))
    return Effects(
        acts=tuple((call.name, call.args, result.payload) for call, result in both),
        results=tuple(fingerprint(call.name, result) for call, result in both),
        failed=tuple(has_failed(result) for result in results if result.ok or result.status == FAILED),
        denied=bool(results) and all(result.status == DENIED for result in results),
        changed=changed,
    )


def has_failed(result: ToolResult) -> bool:
    """A command that ended with another status than 0 as well."""
    return not result.ok or bool(result.facts.get("exit"))


def fingerprint(tool: str, result: ToolResult) -> str:
    """Of a result: which tool gave it counts, how it was called does not."""
    content = f"{result.payload}{result.facts.get('stderr', '')}"
    return hashlib.sha256(f"{tool}\0{content}".encode(errors="replace")).hexdigest()[:32]
