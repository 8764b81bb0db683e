"""The watcher's lines in the boot logs: how each attempt to run a version ended, so that they hold every attempt with
its time and outcome (seed 001). `lines` is pure.

The runner writes its own steps. What it does not live to write, or cannot know, stands here: a runner that does not
parse, a branch that was refused, a later death. Nothing is decided from these lines."""

from __future__ import annotations

from typing import NamedTuple

import structlog

from infra.keep import boot_files
from infra.keep.supervision.decide.events import Event, LaunchFailed, TimeIsUp
from infra.keep.supervision.decide.state import Instant, Phase, State
from infra.keep.supervision.following import brief
from infra.shared.boot_log import BY, ENDED, FAILED, WATCHER, BootLine
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.paths import Paths
from infra.shared.safe_files import Below

UNKNOWN_BOOT, UNKNOWN_COMMIT = "0" * 32, "-"
WORDS = {"failed": FAILED, "died": ENDED, "left": ENDED}
"""Outcome of a boot -> word of its line."""


class _Attempt(NamedTuple):
    branch: str
    commit: str
    boot_id: str


def lines(before: State, event: Event, after: State, now: Instant) -> list[BootLine]:
    """What ended between two states, through `event`."""
    known = {boot.id: boot.outcome for boot in before.boots}
    ended = [
        _line(_Attempt(boot.branch, boot.commit, boot.id), boot.outcome, boot.detail, now)
        for boot in after.boots
        if boot.outcome in WORDS and known.get(boot.id, "") != boot.outcome
    ]
    refused = _refused(before, event)
    if refused and after.troubles != before.troubles:
        ended.append(_line(refused, "failed", after.troubles[-1].text, now))
    return ended


def _refused(before: State, event: Event) -> _Attempt | None:
    """A launch that may have failed before there was a process."""
    match event:
        case LaunchFailed(branch, _, guilty, _, commit):
            attempt = before.attempt or guilty
            boot_id = attempt.boot_id if attempt else ""
            return _Attempt(branch, commit or (attempt.commit if attempt else ""), boot_id)
        case TimeIsUp() if before.phase is Phase.PREPARING:
            return _Attempt(before.preparing, "", "")
    return None


def _line(attempt: _Attempt, outcome: str, why: str, now: Instant) -> BootLine:
    details = {BY: WATCHER, "outcome": outcome, "reason": brief(why)}
    commit, boot_id = attempt.commit or UNKNOWN_COMMIT, attempt.boot_id or UNKNOWN_BOOT
    return BootLine(timestamp(now.wall), WORDS[outcome], attempt.branch, commit, boot_id, details)


class Attempts:
    """The boot logs of one agent's clones."""

    def __init__(self, bot: Below, places: Paths, log: structlog.stdlib.BoundLogger) -> None:
        self._bot = bot
        self._places = places
        self._log = log

    def record(self, before: State, event: Event, after: State, now: Instant) -> None:
        for line in lines(before, event, after, now):
            # A branch without a clone is recorded where main's attempts are.
            for branch in dict.fromkeys((line.branch, MAIN)):
                try:
                    boot_files.add_to_boot_log(self._bot, self._places.checkout(branch), line)
                    break
                except Exception as error:  # whatever it is, an agent without its watcher is worse
                    self._log.warning("attempt.not_recorded", branch=branch, reason=brief(error))
