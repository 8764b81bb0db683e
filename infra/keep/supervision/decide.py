"""What the watcher does about what happens: `decide(state, event, now)` gives the next state and the actions.

One runner at a time. A runner leaves by signalling and exiting; any other end is a failure: of a branch, then main
leads again at once; of main, then whoever the ladder says, after a growing delay. It never gives up. Durations are
taken on the monotonic clock, wall times are only written down for people."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep.supervision import ladder, lives, succession
from infra.keep.supervision.records import credited, entered, is_current, may_fail, named, noted, recorded, settled
from infra.keep.supervision.states import (
    Asked,
    Decision,
    Died,
    EndNow,
    Event,
    Exceeded,
    Instant,
    Launched,
    LaunchFailed,
    LaunchFound,
    Leave,
    MainMoved,
    MainSeen,
    MainUnseen,
    Observed,
    OutageOver,
    Phase,
    Prepared,
    Preparing,
    RetryAsked,
    RollbackFailed,
    RolledBack,
    SealBroken,
    SealUnproved,
    Served,
    SignalRefused,
    Started,
    State,
    StopAsked,
    Sweep,
    Tell,
    TimeIsUp,
    Unwell,
    Well,
)
from infra.shared import report_titles
from infra.shared.active import Level, Runner
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.signals import SignalName
from infra.shared.watcher_file import Request


def decide(state: State, event: Event, now: Instant) -> Decision:
    """Say what the watcher becomes and what to do; touch nothing.

    Events about a runner that is gone change nothing, nor do answers to what was not asked."""
    starting = state.phase is Phase.STARTING and state.runner is None
    match event:
        case Started() if starting:
            return lives.started(state, event, now)
        case LaunchFound(branch) if state.request and succession.is_answered(
            state.request, branch, succession.BOOTSTRAP
        ):
            return settled(state), []
        case Launched(runner, reason) if starting:
            return lives.launched(state, runner, reason, now)
        case LaunchFailed() if starting and state.broken:
            return succession.next_up(state, "", now)
        case LaunchFailed(branch, why, version) if starting:
            return lives.failed(state, branch, version, f"{branch} could not be launched: {why}", "", now)
        case MainSeen(main, reason, withdrawn) if starting:
            state = ladder.at_main(state, main, withdrawn)
            return (state, [ladder.lead(state, reason)]) if not state.stopping else succession.next_up(state, "", now)
        case MainUnseen(why) if starting:
            return lives.failed(state, MAIN, None, f"main could not be looked at: {why}", "", now)
        case MainMoved(main, withdrawn):
            moved = ladder.at_main(state, main, withdrawn)
            if state.phase is Phase.WAITING and main.id != state.main.id:
                return succession.next_up(moved, "restart: main holds another version", now)
            return succession.watched(moved, now), []
        case RetryAsked():
            return _retry(ladder.unpinned(state), now)
        case Preparing() if starting and state.stopping:
            return succession.next_up(state, "", now)
        case Preparing(branch, seconds) if starting:
            preparing = replace(state, preparing=branch)
            return entered(preparing, Phase.PREPARING, now, deadline=now.monotonic + seconds), []
        case Prepared(launch, why_not) if state.phase is Phase.PREPARING:
            if why_not:
                return lives.failed(state, launch.branch, event.guilty, why_not, event.transcript, now)
            return entered(state, Phase.STARTING, now), [Sweep(), launch]
        case Unwell(boot_id, why) if state.runner and is_current(state, boot_id):
            return _unwell(state, state.runner, why, event.certain, now)
        case Well(boot_id) if is_current(state, boot_id):
            return replace(state, unwell=""), []
        case Exceeded(boot_id, why) if state.runner and is_current(state, boot_id) and may_fail(state):
            return lives.end(replace(state, failed=f"{named(state.runner)} took too much: {why}"), state.runner, now)
        case Observed(title, text):
            return noted(state, text, now), [Tell(report_titles.watcher(title), text)]
        case Served(boot_id) if is_current(state, boot_id) and state.phase is Phase.BOOTING:
            serving = replace(entered(state, Phase.RUNNING, now), unwell="")
            serving = replace(serving, deadline=lives.look_again(serving, now))
            return recorded(serving, boot_id, "success", "", now), []
        case Died(boot_id) if state.runner and is_current(state, boot_id):
            return lives.died(state, state.runner, event, now)
        case Asked(request):
            return succession.asked(state, request, now)
        case SignalRefused(why, identity, may_leave):
            if may_leave and state.runner:
                state = replace(state, may_leave=state.runner.boot_id)
            return noted(state, why, now), [Tell(report_titles.watcher("a signal was refused"), why, identity)]
        case RolledBack(target, commit) if starting:
            told = Tell(
                report_titles.watcher(f"rolled back to {target}"),
                f"Main is now {commit[:12]}: the tree of {target}, as a new commit; COMMS.md is kept.",
            )
            # Another main than the one that failed: it begins with a fresh count.
            state, actions = succession.next_up(replace(settled(state), failures=0), f"rollback to {target}", now)
            return state, [told, *actions]
        case RollbackFailed(target, why) if starting:
            told = Tell(report_titles.watcher(f"rollback to {target} failed"), f"{why}\nMain is as it was.")
            state, actions = succession.next_up(noted(settled(state), why, now), "rollback failed", now)
            return state, [told, *actions]
        case TimeIsUp() if state.deadline is not None and now.monotonic >= state.deadline:
            return _time_is_up(state, now)
        case SealUnproved(boot_id, why) if state.runner and is_current(state, boot_id) and not state.failed:
            why = f"while {named(state.runner)} ran the seal could not be proved: {why}"
            failing = state if state.stopping else replace(state, failed=why)
            return entered(failing, Phase.ENDING, now, now.monotonic + state.patience.grace), [EndNow(state.runner)]
        case SealBroken(why) if not state.broken:
            told = Tell(
                report_titles.watcher("the seal is broken, the agent is stopped"),
                f"{why}\nNothing of the agent runs any more; 'minifram restart' seals it anew.",
            )
            state, actions = _stop_asked(noted(replace(state, broken=why), why, now), now)
            return state, [*actions[:-1], told, *actions[-1:]] if Leave() in actions else [*actions, told]
        case OutageOver(what) if state.phase is Phase.WAITING:
            return succession.next_up(state, f"restart: it is over that {what}", now)
        case StopAsked():
            return _stop_asked(state, now)
    return state, []


def _retry(state: State, now: Instant) -> Decision:
    """Main is tried at once, unless somebody leads who was asked for."""
    if state.phase is Phase.WAITING:
        return succession.next_up(state, "restart: the PM asked for it", now)
    stands_in = state.runner is not None and state.runner.level in (Level.GOOD, Level.SAFE)
    if stands_in and state.runner and may_fail(state):
        asked = Request(name=SignalName.BOOTSTRAP.value, target=MAIN, identity=f"retry at {timestamp(now.wall)}")
        return lives.end(replace(state, request=asked), state.runner, now)
    return state, []


def _displaced(state: State, runner: Runner, now: Instant) -> Decision:
    """It had its time to make way for main. That it did not is told; its version is not blamed for it."""
    commit = state.main.commit[:12]
    why = f"{named(runner)} did not make way for main, now at {commit}, within {state.patience.make_way:g} s"
    asked = Request(name=SignalName.BOOTSTRAP.value, target=MAIN, identity=f"main at {commit} {timestamp(now.wall)}")
    told = Tell(
        report_titles.watcher(f"{named(runner)} is ended, main leads"), f"{why}. What it was doing is cut short."
    )
    state, actions = lives.end(noted(replace(state, request=asked), why, now), runner, now)
    return state, [*actions, told]


def _unwell(state: State, runner: Runner, why: str, certain: bool, now: Instant) -> Decision:
    """One odd answer may be a busy machine's; a boot may still become well until its time is up."""
    if certain and may_fail(state):
        return lives.end(replace(state, failed=f"{named(runner)} was not well: {why}"), runner, now)
    if state.phase is Phase.RUNNING and state.unwell and may_fail(state):
        failed = f"{named(runner)} was not well, twice in a row: {state.unwell}; {why}"
        return lives.end(replace(state, failed=failed), runner, now)
    return replace(state, unwell=why), []


def _time_is_up(state: State, now: Instant) -> Decision:
    match state.phase:
        case Phase.BOOTING if state.runner and not state.request:
            late = f"{named(state.runner)} was not seen to be well within {state.patience.boot:g} s"
            late += f": {state.unwell}" if state.unwell else ": it did not say SUCCESS"
            return lives.end(replace(state, failed=late), state.runner, now)
        case Phase.RUNNING if state.runner and not state.request:
            if state.make_way_by is not None and now.monotonic >= state.make_way_by and may_fail(state):
                return _displaced(state, state.runner, now)
            state = credited(state, now)
            return replace(state, deadline=lives.look_again(state, now)), []
        case Phase.BOOTING | Phase.RUNNING if state.runner:
            return lives.end(state, state.runner, now)
        case Phase.ENDING if state.runner:
            # Asked again at each grace: a process in the kernel's hands (D state) ends when it comes back.
            return replace(state, deadline=now.monotonic + state.patience.grace), [EndNow(state.runner)]
        case Phase.PREPARING:
            return lives.failed(state, state.preparing, None, _NOT_READY, "", now)
        case Phase.WAITING:
            why = state.troubles[-1].text if state.troubles else "it failed"
            return succession.next_up(state, f"restart: {why}", now)
    return replace(state, deadline=None), []


_NOT_READY = "what had to be done before the launch took too long"


def _stop_asked(state: State, now: Instant) -> Decision:
    if state.stopping:
        return state, []
    state = replace(state, stopping=True)
    if state.runner is None:
        return (state, []) if state.phase is Phase.STARTING else succession.next_up(state, "", now)
    return lives.end(state, state.runner, now) if state.phase is not Phase.ENDING else (state, [])
