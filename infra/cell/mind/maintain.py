"""The standing duties of the mind, done while the runner has nothing else to do.

Which are due is `cell/mind/duties.py`'s to say, from what `duties.json` holds and the time. With nothing due nothing
is read but that file. Each duty has its time. A try is noted before it begins, so that nothing, not even the end of the
process, has it made more often; one that failed is followed by another when the clock ticks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from infra.cell.loop.deadline import OutOfTime, within
from infra.cell.mind import clone
from infra.cell.mind.duties import (
    CONTEXT_PROFILE,
    DUTIES,
    EXPLORATION_RESET,
    HEALTH_CHECK,
    MOST_BYTES,
    MOST_TRIES,
    STATE,
    DueDuty,
    DutyRecord,
    DutyState,
    UnreadableState,
    due,
    shown_by_files,
    state_of,
    to_json,
)
from infra.cell.mind.duty_works import WORKS, DutyWork
from infra.cell.mind.mind import MindContext, is_tainted
from infra.cell.mind.reflections import tell_failure
from infra.shared.clock import timestamp
from infra.shared.mind.layout import DAILY, WEEKLY
from infra.shared.redacted_file import RedactedFile
from infra.shared.repository.git import GitError
from infra.shared.safe_files import Below

DUTY_SECONDS: Final = 900.0
"""The longest that one may take."""


STEERS_NOTHING: Final = (EXPLORATION_RESET, HEALTH_CHECK, CONTEXT_PROFILE)
"""Duties that write what also a tainted agent may."""


class Maintenance:
    """The duties of one runner's life."""

    def __init__(
        self,
        beat: Callable[[str, float], None],
        works: Mapping[str, DutyWork] = WORKS,
        seconds: float = DUTY_SECONDS,
    ) -> None:
        """`beat` promises that what it names ends in so many seconds."""
        self._beat = beat
        self._works = works
        self._seconds = seconds
        self._waits: set[DueDuty] = set()
        """What failed since the clock ticked last."""
        self._born: float | None = None
        """When the mind was; looked up once something may be due."""

    def tend(self, context: MindContext, ticked: bool, has_work: Callable[[], bool]) -> bool:
        """Do what is due, unless there is other work to do, which is asked before each; whether all was done that
        could be. While the agent is tainted, what is placed before later runs
        or changes memory waits: the door would not take it. Raises Interrupted."""
        if not os.path.isdir(f"{context.places.mind}/.git"):
            return True
        if ticked:
            self._waits.clear()
        state = _read_state(context)
        if state is None:
            return True
        if not self._due(context, state):
            if ticked:
                _write_metrics(context)
            return True
        clone.prepare(context)
        state = _read_state(context) or state  # what was pushed may hold more
        did: list[str] = []
        try:
            for each in self._due(context, state):
                context.interruption.check()
                if has_work():
                    return False
                state = state.with_try(each, context.now())
                if not _write_state(context, state):
                    return True  # what cannot be noted would be done again and again
                state = self._do(context, state, each)
                _write_state(context, state)
                did.append(f"{each.duty.name} {each.period}")
        finally:
            _write_metrics(context)
            if did:
                self._beat("committing the mind", self._seconds)
                clone.publish(context, f"maintenance: {', '.join(did)}", f"maintenance-{timestamp(context.now())}")
        return True

    def is_due(self, context: MindContext) -> bool:
        """Whether something is. Reads one file."""
        state = _read_state(context)
        return state is not None and bool(self._due(context, state))

    def _due(self, context: MindContext, state: DutyState) -> list[DueDuty]:
        duties = [duty for duty in DUTIES if duty.name in self._works]
        if not due(state.done, context.now(), duties):
            return []
        if self._born is None:
            self._born = _born(context)
        found = [each for each in due(state.done, context.now(), duties, self._born) if each not in self._waits]
        steering = [each for each in found if each.duty.name not in STEERS_NOTHING]
        return [each for each in found if each not in steering] if steering and is_tainted(context) else found

    def _do(self, context: MindContext, state: DutyState, each: DueDuty) -> DutyState:
        self._beat(f"maintaining: {each.duty.words}", self._seconds)
        facts = {"duty": each.duty.name, "period": each.period}
        try:
            words = within(self._seconds, lambda: self._works[each.duty.name](context, each))
        except (Exception, OutOfTime) as error:
            why = f"it had not ended after {self._seconds:g} s" if isinstance(error, OutOfTime) else _why(error)
            self._waits.add(each)
            state = state.with_failure(each, context.now(), why)
            context.note("mind.duty_failed", **facts, error=why, given_up=state.has_given_up(each))
            _tell(context, each, state)
            return state
        context.note("mind.duty_done", **facts, words=words)
        return state.with_done(each, context.now(), words)


def _born(context: MindContext) -> float:
    """The date of the mind's first commit; long ago when that cannot be told."""
    try:
        roots = context.git("rev-list", "--max-parents=0", "--no-commit-header", "--format=%ct", "HEAD", "--").split()
    except GitError:
        return 0.0
    return float(min(map(int, roots), default=0))


def _why(error: BaseException) -> str:
    return str(error) if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"


def _read_state(context: MindContext) -> DutyState | None:
    """None when nothing may be done by it."""
    below = Below(context.places.mind)
    try:
        return state_of(below.whole(STATE, MOST_BYTES))
    except FileNotFoundError:
        return _from_summaries(context.places.mind)
    except UnreadableState as broken:
        context.note("mind.duties_unreadable", error=str(broken))
        return None if broken.is_later else _from_summaries(context.places.mind)
    except OSError as error:
        context.note("mind.duties_unreadable", error=f"{error}; remove {STATE} and push the branch mind")
        return None


def _from_summaries(root: str) -> DutyState:
    def names(directory: str) -> list[str]:
        try:
            return os.listdir(f"{root}/{directory}")
        except OSError:
            return []

    done = shown_by_files(names(DAILY), names(WEEKLY))
    return DutyState(duties={name: DutyRecord(done=periods) for name, periods in done.items()})


def _write_state(context: MindContext, state: DutyState) -> bool:
    path = f"{context.places.mind}/{STATE}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        RedactedFile(path).replace(to_json(state))
    except OSError as error:
        context.note("mind.duties_not_noted", error=str(error))
        return False
    return True


def _tell(context: MindContext, each: DueDuty, state: DutyState) -> None:
    record = state.record(each.duty.name)
    tries = record.tries.get(each.period, MOST_TRIES)
    then = "It is not tried again." if state.has_given_up(each) else "It is tried again at the next tick."
    text = f"At {record.failed_at}, try {tries} of {MOST_TRIES}: {record.why}\n\n{then}"
    try:
        tell_failure(context.places.mind, f"Duty {each.duty.name} {each.period}", text)
    except OSError as error:
        context.note("mind.failure_not_told", error=str(error))


def _write_metrics(context: MindContext) -> None:
    from infra.cell.mind.metrics_file import write_metrics

    try:
        write_metrics(context)
    except OSError as error:
        context.note("mind.metrics_not_written", error=str(error))
