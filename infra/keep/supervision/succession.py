"""Part of `decide`: who is led next, once no runner is alive: what was asked for, else main, by the ladder."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep.supervision import ladder
from infra.keep.supervision.records import entered, noted, settled
from infra.keep.supervision.states import (
    Decision,
    Hop,
    Instant,
    Launch,
    Leave,
    LookAtMain,
    Phase,
    RollBack,
    State,
    Sweep,
    Tell,
)
from infra.shared import report_titles
from infra.shared.branches import MAIN
from infra.shared.signals import SignalName
from infra.shared.watcher_file import Request

BOOTSTRAP = "bootstrap"
"""The reason of a launch that was asked for."""
UNWATCHED = "ended while no watcher was running"
TRIES = 3
"""So often a branch is launched that takes the watcher down with it before its launch can be noted."""
HOPS_SECONDS, HOPS_KEPT = 600.0, 100
"""How far back it is looked for a branch that leads nowhere."""


def next_up(state: State, reason: str, now: Instant) -> Decision:
    """No runner is alive: carry out what was asked for, else start main."""
    if state.stopping:
        # Somebody ended it on purpose: who starts it again wants to see it try, not wait.
        return entered(replace(state, failures=0), Phase.STOPPED, now), [Sweep(), Leave()]
    request = state.request
    state = entered(state, Phase.STARTING, now)
    if request is None:
        return state, [Sweep(), LookAtMain(reason or "restart")]
    if request.name == SignalName.ROLLBACK.value:
        return state, [Sweep(), RollBack(request.target)]
    if request.target == MAIN:
        return state, [Sweep(), LookAtMain(BOOTSTRAP)]
    if _leads_nowhere(state, request.target, now):
        times = f"{state.patience.hops} times in {HOPS_SECONDS / 60:.0f} minutes"
        why = f"{request.target} led {times}, and main is as it was"
        told = Tell(report_titles.watcher(f"{request.target} leads nowhere, main leads again"), f"{why}.")
        return settled(noted(state, why, now)), [Sweep(), LookAtMain(f"fallback: {why}"), told]
    return state, [Sweep(), Launch(request.target, BOOTSTRAP, launched_for=state.main.body)]


def _leads_nowhere(state: State, branch: str, now: Instant) -> bool:
    """The two hand over to each other, and nothing comes of it."""
    since = now.monotonic - HOPS_SECONDS
    lately = [hop for hop in state.hops if hop.at >= since and (hop.branch, hop.main) == (branch, state.main.id)]
    return len(lately) >= state.patience.hops


def start_anew(state: State, now: Instant) -> Decision:
    """A watcher begins, and no runner lives: go on with what was asked for before, unless that ends watchers."""
    request = state.request
    if request is None or request.name != SignalName.BOOTSTRAP.value:
        return next_up(state, "start", now)
    last = state.boots[-TRIES:]
    fatal = [boot for boot in last if (boot.branch, boot.reason, boot.detail) == (request.target, BOOTSTRAP, UNWATCHED)]
    if len(fatal) < TRIES:
        return next_up(state, "start", now)
    why = f"bootstrap {request.target} was dropped: {TRIES} times no watcher was left when it had been launched"
    state, actions = next_up(settled(noted(state, why, now)), f"fallback: {why}", now)
    return state, [*actions, Tell(report_titles.watcher(f"{request.target} failed, main leads again"), f"{why}.")]


def asked(state: State, request: Request, now: Instant) -> Decision:
    """A signal: the last one counts, but a rollback before any bootstrap; the same file twice is one."""
    if request.identity == state.handled or (state.request and request.identity == state.request.identity):
        return state, []
    waiting = state.request
    preparing = state.preparing if state.phase is Phase.PREPARING else ""
    if preparing == request.target and request.name == SignalName.BOOTSTRAP.value:
        # What is being tried out could signal this itself, and must not keep its own trial from ending.
        why = f"{request.name} {request.target} was dropped: {preparing} is being prepared already"
        return noted(state, why, now), []
    if waiting and waiting.name == SignalName.ROLLBACK.value and request.name == SignalName.BOOTSTRAP.value:
        why = f"bootstrap {request.target} was dropped: a rollback to {waiting.target} is under way"
        return noted(state, why, now), []
    if waiting:
        why = f"{waiting.name} {waiting.target} was dropped: {request.name} {request.target} came after it"
        state = noted(state, why, now)
    state = replace(state, request=request)
    if state.phase in (Phase.BOOTING, Phase.RUNNING):
        return replace(state, deadline=leave_by(state, now)), []
    if preparing and preparing != MAIN:
        # Counted as if it had led: two branches whose rehearsals ask for each other must not go on for ever.
        state = hopped(state, preparing, now)
    return next_up(state, "", now) if preparing or state.phase is Phase.WAITING else (state, [])


def hopped(state: State, branch: str, now: Instant) -> State:
    return replace(state, hops=(*state.hops, Hop(now.monotonic, branch, state.main.id))[-HOPS_KEPT:])


def is_answered(request: Request, branch: str, reason: str) -> bool:
    """This launch is what was asked for."""
    return request.name == SignalName.BOOTSTRAP.value and request.target == branch and reason == BOOTSTRAP


def watched(state: State, now: Instant) -> State:
    """Main was looked at while somebody leads: by when that runner is to make way for it, if it is to."""
    runner = state.runner
    if runner is None or not ladder.is_outdated(state, runner):
        return replace(state, make_way_by=None)
    if state.make_way_by is not None:
        return state
    by = now.monotonic + state.patience.make_way
    sooner = by if state.deadline is None else min(by, state.deadline)
    is_free = state.phase is Phase.RUNNING and not state.request
    return replace(state, make_way_by=by, deadline=sooner if is_free else state.deadline)


def leave_by(state: State, now: Instant) -> float | None:
    """A runner that has signalled is to leave by itself within the grace."""
    return now.monotonic + state.patience.grace if state.request else None
