"""Part of `decide`: the steps that every decision is made of, and the words for what is written down."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep.supervision import ladder
from infra.keep.supervision.states import Instant, Phase, State
from infra.shared import report_titles
from infra.shared.active import Level, Runner
from infra.shared.clock import timestamp
from infra.shared.watcher_file import BootRecord, Trouble

BOOTS_KEPT, TROUBLES_KEPT = 20, 10


def entered(state: State, phase: Phase, now: Instant, deadline: float | None = None) -> State:
    """A phase begins, and has to end by `deadline`."""
    return replace(state, phase=phase, since=now, deadline=deadline)


def settled(state: State) -> State:
    """What was asked for is carried out, or given up; its file may be met once more."""
    return replace(state, request=None, handled=state.request.identity if state.request else state.handled)


def recorded(state: State, boot_id: str, outcome: str, detail: str, now: Instant) -> State:
    """What became of a boot."""

    def updated(boot: BootRecord) -> BootRecord:
        ended_at = "" if outcome == "success" else timestamp(now.wall)
        return replace(boot, outcome=outcome, ended_at=ended_at, detail=detail)

    boots = tuple(updated(boot) if boot.id == boot_id else boot for boot in state.boots)
    return replace(state, boots=boots)


def outcome_of(state: State, boot_id: str) -> str:
    return next((boot.outcome for boot in state.boots if boot.id == boot_id), "")


def noted(state: State, text: str, now: Instant) -> State:
    """For `minifram status`."""
    trouble = Trouble(at=timestamp(now.wall), text=text)
    return replace(state, troubles=(*state.troubles, trouble)[-TROUBLES_KEPT:])


def credited(state: State, now: Instant) -> State:
    """Who has served for long has earned a fresh count, however it leaves; a branch is soon gone and earns nothing."""
    runner, served = state.runner, now.monotonic - state.since.monotonic
    if not runner or runner.level is Level.BRANCH or state.phase is not Phase.RUNNING:
        return state
    if served >= ladder.STABLE_SECONDS:
        state = ladder.stable(state, runner)
    return replace(ladder.lived(state, runner), failures=0) if served >= state.patience.probation else state


def is_current(state: State, boot_id: str) -> bool:
    return state.runner is not None and state.runner.boot_id == boot_id


def may_fail(state: State) -> bool:
    """It leads, and is not on its way out already."""
    return state.phase in (Phase.BOOTING, Phase.RUNNING) and not (state.stopping or state.request or state.failed)


def named(runner: Runner) -> str:
    """What runs, which in safe mode is nothing of main's."""
    if runner.level is Level.SAFE:
        return f"{Level.SAFE.value} (in place of {report_titles.version(runner.branch, runner.commit)})"
    return report_titles.version(runner.branch, runner.commit)


def quoted(last_words: str) -> str:
    """As a block that markdown leaves alone."""
    if not last_words.strip():
        return ""
    lines = "\n".join(f"    {line}" for line in last_words.strip().splitlines())
    return f" Its last words:\n\n{lines}"
