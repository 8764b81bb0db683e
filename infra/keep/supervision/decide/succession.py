"""Which version runs next, once no runner is alive: what a signal requested; else main; the last main that served well
while main's version is pinned; safe mode, the image's own runner, when there is no such version.

A version that fails too often is pinned until main holds another or the PM says `minifram retry`. When safe mode itself
fails, the machine is to blame, and all pins are taken off."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep.supervision.decide.events import Decision, Launch, Leave, RollBack, Tell
from infra.keep.watcher_file import Instant, Level, Phase, Runner, State, Strikes, Version
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.signals import FALLBACK, SignalName

STRIKES_KEPT, GOODS_KEPT = 50, 20
LONGEST_DELAY = 60.0
DRIFT_CHARS = 300


def next_up(state: State, reason: str, now: Instant, fresh: bool = False) -> Decision:
    """No runner is alive: carry out the request, else launch main, in a `fresh` clone if that is asked for."""
    if state.stopping:  # somebody stopped it on purpose: the next start tries at once
        return replace(state, failures=0).entered(Phase.STOPPED, now), [Leave()]
    state, request = state.entered(Phase.STARTING, now), state.request
    if request is None or state.is_for(MAIN):
        return state, [of_main(state, reason or (request.why if request else "") or "bootstrap", fresh)]
    if request.name == SignalName.ROLLBACK.value:
        return state, [RollBack(request.target)]
    why = refusal(state, request.target, now)
    if not why:
        return state, [Launch(request.target, Level.BRANCH, "bootstrap", made_for=state.main.id)]
    why = f"{request.target} was not started: {why}"
    launch = of_main(state := state.noted(why, now).settled(), f"{FALLBACK}{why}")
    return state, [launch, Tell(f"{request.target} was not started, {launch.level.value} is active", f"{why}.")]


def refusal(state: State, branch: str, now: Instant) -> str:
    """Why a requested branch is not launched; empty when it may be."""
    if state.drifted:
        return "the mind has drifted, and safe mode is in place until it is right"
    window = state.patience.hops_window
    lately = [hop for at, *hop in state.hops if at >= now.watch - window]
    if (hops := lately.count([branch, state.main.id])) < state.patience.hops:
        return ""
    return f"it was active {hops} times in {window / 60:.0f} minutes, and main is unchanged"


def of_main(state: State, reason: str, fresh: bool = False) -> Launch:
    """The best level that is not pinned."""
    main, goods = state.main, state.goods
    if state.drifted:
        goods, why = (), f"{reason}; the mind has drifted: {state.drifted[:DRIFT_CHARS]}"
    elif pin := state.pin_of(main.id):
        why = f"{reason}; main's version is pinned since it failed at {pin.at}: {pin.why}"
    else:
        return Launch(MAIN, Level.MAIN, reason, main, main.id, fresh or _is_fresh(state, Level.MAIN))
    for good in goods:
        if good.id != main.id and state.pin_of(good.id) is None:
            return Launch(MAIN, Level.GOOD, why, good, main.id, _is_fresh(state, Level.GOOD))
    return Launch(MAIN, Level.SAFE, why, Version(commit=main.commit), main.id, _is_fresh(state, Level.SAFE))


def _is_fresh(state: State, level: Level) -> bool:
    """Whether another level served last, so that main's clone is not this one's own: once, as what never came up left
    nothing there, and a crash loop is not to push the older clones out."""
    levels = set[Level]()
    for boot in reversed(state.boots):
        levels.add(boot.level)
        if boot.lived:
            return level not in levels
    return False


def is_outdated(state: State, runner: Runner) -> bool:
    """Main is another version than when this runner was launched."""
    return bool(runner.made_for and state.main.id and runner.made_for != state.main.id)


def main_seen(state: State, main: Version, goods: tuple[Version, ...], now: Instant) -> State:
    """Pins of main, and the delay, last until it holds another version. When main holds a good version again, what is
    newer among them was taken back."""
    ids = [good.id for good in goods]
    if main.id != state.main.id:
        stand_ins = {*ids} - {main.id}
        kept = tuple(each for each in state.strikes if each.branch != MAIN or each.version in stand_ins)
        state = replace(state, strikes=kept, failures=0)
    goods = goods[ids.index(main.id) :] if main.id in ids else goods
    return watched(makes_way(replace(state, main=main, goods=goods), now), now)


def makes_way(state: State, now: Instant) -> State:
    """By when the runner has to be gone, if it is outdated: counted from when that was seen first."""
    if state.runner is None or not is_outdated(state, state.runner):
        return replace(state, make_way_by=None)
    return state if state.make_way_by is not None else replace(state, make_way_by=now.watch + state.patience.make_way)


def blamed(state: State, runner: Runner, why: str, now: Instant) -> State:
    """One more strike: a branch has one try, main two, and what has ever served one more."""
    if runner.level is Level.SAFE:
        return replace(state, strikes=())
    if not runner.version:
        return state
    before = next((each.count for each in state.strikes if each.version == runner.version), 0)
    tries = (1 if runner.level is Level.BRANCH else 2) + (
        any(boot.version == runner.version and boot.lived for boot in state.boots) or state.is_good(runner)
    )
    strikes = Strikes(
        version=runner.version,
        commit=runner.commit,
        branch=runner.branch,
        count=before + 1,
        pinned=before + 1 >= tries,
        why=why,
        at=timestamp(now.wall),
    )
    others = [each for each in state.strikes if each.version != runner.version]
    # Branches come and go; what is known of main is not lost to them.
    others.sort(key=lambda each: each.branch == MAIN)
    return replace(state, strikes=(*others[-STRIKES_KEPT + 1 :], strikes))


def credited(state: State, now: Instant) -> State:
    """A long service counts, however it ends: failures are forgotten, and what main still holds is known good."""
    runner, served = state.runner, now.watch - state.since.watch
    if runner is None or runner.level is Level.BRANCH or state.phase is not Phase.RUNNING:
        return state
    if served >= state.patience.stable:
        state = replace(state, strikes=tuple(each for each in state.strikes if each.version != runner.version))
    if served >= state.patience.probation:
        state = replace(state, failures=0)
        if runner.version == state.main.id and not state.is_good(runner):
            goods = (Version(runner.commit, runner.version), *state.goods)
            state = replace(state, goods=goods[:GOODS_KEPT])
    return state


def watched(state: State, now: Instant) -> State:
    """While a runner serves: when it has to be looked at again, for main or for its credit."""
    if state.phase is not Phase.RUNNING or state.request:
        return state
    credits = (state.since.watch + each for each in (state.patience.probation, state.patience.stable))
    due = [each for each in credits if each > now.watch]
    due += [state.make_way_by] if state.make_way_by is not None else []
    return replace(state, deadline=min(due, default=None))


def delay(failures: int) -> float:
    """Seconds until the next try: at once, then 1, 2, 4 … 60 s."""
    return 0.0 if failures <= 1 else min(2.0 ** min(failures - 2, 10), LONGEST_DELAY)
