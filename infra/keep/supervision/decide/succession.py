"""Which version runs next, once no runner is alive: the branch or the rollback that a signal requested; else main; the
last known-good main while main's version is pinned; safe mode, the image's own runner, when there is no such version.

A version is what a runner is made of. Reports move main and do not change its version. A version that fails too often
is pinned: it is not started again until main holds another version or the PM asks for it. When safe mode itself fails,
no version is to blame: pins made since a runner last served its probation are pardoned."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep.active import Level, Runner
from infra.keep.supervision.decide.events import Decision, Launch, Leave, LookAtMain, RollBack, Sweep, Tell
from infra.keep.supervision.decide.state import BOOTSTRAP, Instant, Phase, State
from infra.keep.watcher_file import LIVED, Pin, SignalRequest, Version, VersionFailures
from infra.shared import report_titles
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.signals import SignalName

UNWATCHED = "ended while no watcher was running"
TRIES = 3
"""How often a branch is launched whose launch takes the watcher down before it can be recorded."""
HOPS_SECONDS, HOPS_KEPT = 600.0, 100
"""The window in which hops to one branch are counted."""
KNOWN_GOOD_KEPT = 5
DRIFT_CHARS = 300
FAILURES_KEPT, PINS_KEPT = 50, 50
STABLE_SECONDS = 6 * 3600.0
"""A life this long clears a version's earlier failures; a shorter one does not: dying every hour is a way to be bad."""


def next_launch(state: State, reason: str) -> Launch:
    """The best level of fallback that is not blocked."""
    main = state.main
    if state.drifted:
        why = f"{reason}; the mind has drifted: {state.drifted[:DRIFT_CHARS]}"
        return Launch(MAIN, why, Level.SAFE, main.commit, main.commit, launched_for(state, Level.SAFE))
    pin = pin_of(state, main.id)
    if pin is None:
        return Launch(MAIN, reason, Level.MAIN, main.commit, launched_for=launched_for(state, Level.MAIN))
    why = f"{reason}; main's version is pinned since it failed at {pin.at}: {pin.why}"
    for good in state.known_good:
        if good.id != main.id and pin_of(state, good.id) is None and not is_withdrawn(state, good.id):
            return Launch(MAIN, why, Level.GOOD, good.commit, main.commit, launched_for(state, Level.GOOD))
    return Launch(MAIN, why, Level.SAFE, main.commit, main.commit, launched_for(state, Level.SAFE))


def launched_for(state: State, level: Level) -> str:
    """What of main a runner on this level depends on. A substitute for main makes way when main's version changes;
    every other runner reads SYSTEM.md at each run, and makes way only when main's body changes."""
    return state.main.id if level in (Level.GOOD, Level.SAFE) else state.main.body


def is_outdated(state: State, runner: Runner) -> bool:
    """Main has changed since this runner was launched, or the PM has withdrawn the version that replaces it."""
    now = launched_for(state, runner.level)
    withdrawn = runner.level is Level.GOOD and is_withdrawn(state, runner.version)
    return withdrawn or bool(runner.launched_for and now and runner.launched_for != now)


def is_withdrawn(state: State, version: str) -> bool:
    """The PM has rolled back from it, or rejected it, and has not allowed it again since."""
    return version in state.withdrawn and version not in state.pardoned


def at_main(state: State, main: Version, withdrawn: tuple[str, ...] | None) -> State:
    """Main was read. Pins, and the count of failures, last until it holds another version."""
    if withdrawn is not None:
        pardoned = tuple(version for version in state.pardoned if version in withdrawn)
        state = replace(state, withdrawn=withdrawn, pardoned=pardoned)
    if main.id != state.main.id:
        substitutes = {good.id for good in state.known_good} - {main.id}
        pins = tuple(pin for pin in state.pins if pin.version in substitutes)
        state = replace(state, failures=0, pins=pins)
    return replace(state, main=main)


def pin_of(state: State, version: str) -> Pin | None:
    return next((pin for pin in state.pins if version and pin.version == version), None)


def is_known_good(state: State, runner: Runner) -> bool:
    return runner.level is Level.SAFE or any(good.id == runner.version for good in state.known_good)


def blamed(state: State, runner: Runner, why: str, now: Instant) -> State:
    """One more failure of the runner's version, and its pin if that was one too many."""
    version = runner.version
    if runner.level is Level.SAFE:  # nothing could run, so no version is to blame
        proven = tuple(pin for pin in state.pins if pin.proven)
        return replace(state, pins=proven, version_failures=(), safe_mode_failures=state.safe_mode_failures + 1)
    if not version or pin_of(state, version):
        return state
    count = next((one.count for one in state.version_failures if one.version == version), 0) + 1
    others = tuple(one for one in state.version_failures if one.version != version)
    worked = any(boot.version == version and boot.outcome in LIVED for boot in state.boots)
    tries = (1 if runner.level is Level.BRANCH else 2) + (worked or is_known_good(state, runner))
    if count < tries:
        return replace(
            state, version_failures=(*others, VersionFailures(version=version, count=count))[-FAILURES_KEPT:]
        )
    pin = Pin(version=version, commit=runner.commit, branch=runner.branch, why=why, at=timestamp(now.wall))
    pins = (*state.pins, pin)
    if len(pins) > PINS_KEPT:  # branches come and go; a pin of main must not be lost to them
        oldest = next((old for old in pins if old.branch != MAIN), pins[0])
        pins = tuple(old for old in pins if old is not oldest)
    return replace(state, version_failures=others, pins=pins)


def credited(state: State, now: Instant) -> State:
    """Credit a long service, however it ends: earlier failures of the version are forgotten (not for a branch, which is
    short-lived). After its probation a version is known good, and the pins made before it are confirmed."""
    runner, served = state.runner, now.monotonic - state.since.monotonic
    if not runner or runner.level is Level.BRANCH or state.phase is not Phase.RUNNING:
        return state
    if served >= STABLE_SECONDS:
        rest = tuple(one for one in state.version_failures if one.version != runner.version)
        state = replace(state, version_failures=rest)
    if served < state.patience.probation:
        return state
    pins = tuple(replace(pin, proven=True) for pin in state.pins)
    known_good = state.known_good
    if runner.level in (Level.MAIN, Level.GOOD) and runner.version:
        good = Version(commit=runner.commit, id=runner.version)
        known_good = (good, *(old for old in known_good if old.id != good.id))[:KNOWN_GOOD_KEPT]
    return replace(state, pins=pins, known_good=known_good, failures=0, safe_mode_failures=0)


def retried(state: State) -> State:
    """The PM says that every version may be tried again."""
    return replace(state, pins=(), version_failures=(), pardoned=state.withdrawn, safe_mode_failures=0, failures=0)


def next_up(state: State, reason: str, now: Instant) -> Decision:
    """No runner is alive: carry out the request, else start main."""
    if state.stopping:
        # Somebody stopped it on purpose: the next start tries at once.
        return replace(state, failures=0).entered(Phase.STOPPED, now), [Sweep(), Leave()]
    request = state.request
    state = state.entered(Phase.STARTING, now)
    if request is None:
        return state, [Sweep(), LookAtMain(reason or "restart")]
    if request.name == SignalName.ROLLBACK.value:
        return state, [Sweep(), RollBack(request.target)]
    if request.target == MAIN:
        return state, [Sweep(), LookAtMain(request.why or BOOTSTRAP)]
    if state.drifted:
        why = f"{request.target} was not started: the mind has drifted, and safe mode is in place until it is right"
        told = Tell(report_titles.watcher(f"{request.target} was not started, safe mode is active"), f"{why}.")
        return state.noted(why, now).settled(), [Sweep(), LookAtMain(f"fallback: {why}"), told]
    lately = [hop for at, *hop in state.hops if at >= now.monotonic - HOPS_SECONDS]
    if (hops := lately.count([request.target, state.main.id])) < state.patience.hops:
        return state, [Sweep(), Launch(request.target, BOOTSTRAP, launched_for=state.main.body)]
    # The branch and main hand over to each other, and main never changes.
    why = f"{request.target} was active {hops} times in {HOPS_SECONDS / 60:.0f} minutes, and main is unchanged"
    told = Tell(report_titles.watcher(f"{request.target} hopped too often, main is active again"), f"{why}.")
    return state.noted(why, now).settled(), [Sweep(), LookAtMain(f"fallback: {why}"), told]


def first_launch(state: State, now: Instant) -> Decision:
    """A watcher begins and no runner is alive: carry out the remembered request, unless that ends watchers."""
    request, last = state.request, [(boot.branch, boot.reason, boot.detail) for boot in state.boots[-TRIES:]]
    if request is None or last != [(request.target, BOOTSTRAP, UNWATCHED)] * TRIES:
        return next_up(state, "start", now)
    why = f"bootstrap {request.target} was dropped: the watcher died during each of {TRIES} launches"
    state, actions = next_up(state.noted(why, now).settled(), f"fallback: {why}", now)
    return state, [*actions, Tell(report_titles.watcher(f"{request.target} failed, main is active again"), f"{why}.")]


def asked(state: State, request: SignalRequest, now: Instant) -> Decision:
    """A signal. The last one counts, but a rollback comes before any bootstrap; the same file counts once."""
    waiting = state.request
    if request.identity == state.handled or (waiting and request.identity == waiting.identity):
        return state, []
    preparing = state.preparing if state.phase is Phase.PREPARING else ""
    is_bootstrap = request.name == SignalName.BOOTSTRAP.value
    if is_bootstrap and preparing == request.target:
        # The branch under rehearsal could signal this itself, and must not keep its rehearsal from ending.
        why = f"{request.name} {request.target} was dropped: {preparing} is being prepared already"
        return state.noted(why, now), []
    if is_bootstrap and waiting and waiting.name == SignalName.ROLLBACK.value:
        why = f"bootstrap {request.target} was dropped: a rollback to {waiting.target} is under way"
        return state.noted(why, now), []
    if waiting:
        why = f"{waiting.name} {waiting.target} was dropped: {request.name} {request.target} came after it"
        state = state.noted(why, now)
    state = replace(state, request=request)
    if state.phase in (Phase.BOOTING, Phase.RUNNING):
        return replace(state, deadline=state.leave_by(now)), []
    if preparing and preparing != MAIN:
        # It counts as a hop: two branches whose rehearsals ask for each other must not go on for ever.
        state = hopped(state, preparing, now)
    return next_up(state, "", now) if preparing or state.phase is Phase.WAITING else (state, [])


def hopped(state: State, branch: str, now: Instant) -> State:
    return replace(state, hops=(*state.hops, (now.monotonic, branch, state.main.id))[-HOPS_KEPT:])


def is_answered(request: SignalRequest | None, branch: str) -> bool:
    """A launch of this branch is what was requested."""
    return request is not None and request.name == SignalName.BOOTSTRAP.value and request.target == branch


def watched(state: State, now: Instant) -> State:
    """Main was read while a runner is alive: by when the runner has to make way, if it is outdated."""
    runner = state.runner
    if runner is None or not is_outdated(state, runner):
        return replace(state, make_way_by=None)
    if state.make_way_by is not None:
        return state
    by = now.monotonic + state.patience.make_way
    sooner = by if state.deadline is None else min(by, state.deadline)
    is_free = state.phase is Phase.RUNNING and not state.request
    return replace(state, make_way_by=by, deadline=sooner if is_free else state.deadline)
