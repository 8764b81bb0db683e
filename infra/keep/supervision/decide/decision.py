"""What the watcher does about an event: `decide(state, event, now)` gives the next state and the actions.

One runner at a time. A runner exits after it has signalled; any other end is a failure. When a branch fails, main runs
again at once; when main fails, `succession` says what runs next, after a growing delay. The watcher never gives up."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep.active import Level, Runner
from infra.keep.supervision.decide import events, runs, succession
from infra.keep.supervision.decide.events import Decision, End, Event, Tell
from infra.keep.supervision.decide.state import Instant, Phase, State
from infra.keep.watcher_file import SignalRequest
from infra.shared import report_titles
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.signals import SignalName


def decide(state: State, event: Event, now: Instant) -> Decision:
    """Say what the watcher becomes and what to do; touch nothing.

    Events about a runner that is gone change nothing, nor do answers to what was not asked."""
    if isinstance(event, events.BootEvent):
        return _boot(state, event, now)
    if isinstance(event, events.MainEvent):
        return _main(state, event, now)
    match event:
        case events.Probed(boot_id) if state.runner and state.is_current(boot_id):
            return _probed(state, state.runner, event, now)
        case events.OutageOver(what) if state.phase is Phase.WAITING:
            return succession.next_up(state, f"restart: the outage is over ({what})", now)
        case events.MustEnd(boot_id, why) if state.runner and state.is_current(boot_id) and state.may_fail():
            return runs.end(replace(state, failed=f"{state.runner.title} was ended: {why}"), state.runner, now)
        case events.MindDrifted(why):
            return _drifted(state, why, now)
        case events.Observed(title, text):
            return state.noted(text, now), [Tell(report_titles.watcher(title), text)]
        case events.Asked(request):
            return succession.asked(state, request, now)
        case events.SignalRefused(why, identity, may_leave):
            if may_leave and state.runner:
                state = replace(state, may_leave=state.runner.boot_id)
            return state.noted(why, now), [Tell(report_titles.watcher("a signal was refused"), why, identity)]
        case events.SealFailed():
            return _seal_failed(state, event, now)
        case events.TimeIsUp() if state.deadline is not None and now.monotonic >= state.deadline:
            return _time_is_up(state, now)
        case events.StopAsked():
            return _stop_asked(state, now)
    return state, []


def _boot(state: State, event: events.BootEvent, now: Instant) -> Decision:
    is_awaited = state.phase in (Phase.STARTING, Phase.PREPARING) and state.runner is None
    is_launching = is_awaited and state.attempt is None
    match event:
        case events.Started() if state.phase is Phase.STARTING and state.runner is None:
            return runs.started(state, event, now)
        case events.Preparing() | events.LaunchReady() if is_launching and state.stopping:
            return succession.next_up(state, "", now)
        case events.Preparing(branch, seconds) if is_launching:
            state = replace(state, preparing=branch)
            return state.entered(Phase.PREPARING, now, deadline=now.monotonic + seconds), []
        case events.LaunchReady() if is_launching:
            return runs.attempted(state, event, now)
        case events.Launched(runner) if state.attempt and state.attempt.boot_id == runner.boot_id:
            return runs.launched(state, runner, now)
        case events.LaunchFailed() if is_awaited:
            return runs.not_launched(state, event, now)
        case events.Died(boot_id) if state.runner and state.is_current(boot_id):
            return runs.died(state, state.runner, event, now)
    return state, []


def _probed(state: State, runner: Runner, event: events.Probed, now: Instant) -> Decision:
    """One bad answer may be due to a busy machine; a boot has until its deadline to become healthy."""
    problem = event.problem
    if not problem and state.phase is Phase.BOOTING:
        state = replace(state.entered(Phase.RUNNING, now), unwell="")
        state = replace(state, deadline=runs.look_again(state, now))
        return state.recorded(runner.boot_id, "success", "", now), []
    if problem and state.may_fail() and state.phase is Phase.RUNNING and state.unwell:
        failed = f"{runner.title} was not well, twice in a row: {state.unwell}; {problem}"
        return runs.end(replace(state, failed=failed), runner, now)
    return replace(state, unwell=problem), []


def _seal_failed(state: State, event: events.SealFailed, now: Instant) -> Decision:
    runner, why = state.runner, event.why
    if event.boot_id:
        if not runner or runner.boot_id != event.boot_id or state.failed:
            return state, []
        why = f"while {runner.title} ran the seal could not be verified: {why}"
        state = replace(state, failed="" if state.stopping else why)
        return state.entered(Phase.ENDING, now, now.monotonic + state.patience.grace), [End(runner, firmly=True)]
    if state.broken:
        return state, []
    text = f"{why}\nThe watcher has ended all processes of the agent; 'minifram restart' seals it again."
    told = Tell(report_titles.watcher("the seal is broken, the agent is stopped"), text)
    state, actions = _stop_asked(replace(state, broken=why).noted(why, now), now)
    return state, [*actions, told]


def _main(state: State, event: events.MainEvent, now: Instant) -> Decision:
    is_starting = state.phase is Phase.STARTING and state.runner is None
    match event:
        case events.MainSeen(main, reason, withdrawn) if reason and is_starting:
            state = succession.at_main(state, main, withdrawn)
            if state.stopping:
                return succession.next_up(state, "", now)
            return state, [succession.next_launch(state, reason)]
        case events.MainSeen(main, _, withdrawn):
            moved = succession.at_main(state, main, withdrawn)
            if state.phase is Phase.WAITING and main.id != state.main.id:
                return succession.next_up(moved, "restart: main holds another version", now)
            return succession.watched(moved, now), []
        case events.RolledBack(target, commit, problem) if is_starting:
            if problem:
                title, text = f"rollback to {target} failed", f"{problem}\nMain is unchanged."
                state, reason = state.noted(problem, now), "rollback failed"
            else:
                title, reason = f"rolled back to {target}", f"rollback to {target}"
                text = f"Main is now {commit[:12]}: the tree of {target}, as a new commit; COMMS.md is kept."
                state = replace(state, failures=0)  # another main than the one that failed
            state, actions = succession.next_up(state.settled(), reason, now)
            # The report last: on the way to a launch nothing is recorded yet, and it would be made twice after a crash.
            return state, [*actions, Tell(report_titles.watcher(title), text)]
        case events.RetryAsked():
            state = succession.retried(state)
            if state.phase is Phase.WAITING:
                return succession.next_up(state, "restart: the PM requested it", now)
            if state.runner and state.runner.level in (Level.GOOD, Level.SAFE) and state.may_fail():
                return _replaced(state, state.runner, f"retry at {timestamp(now.wall)}", now)
    return state, []


def _replaced(state: State, runner: Runner, identity: str, now: Instant, why: str = "") -> Decision:
    """By main."""
    request = SignalRequest(name=SignalName.BOOTSTRAP.value, target=MAIN, identity=identity, why=why)
    return runs.end(replace(state, request=request), runner, now)


def _drifted(state: State, why: str, now: Instant) -> Decision:
    """Safe mode takes the place of what runs, and makes way again when the mind is right."""
    state, runner = replace(state, drifted=why), state.runner
    if runner is None or not state.may_fail():
        return state, []
    if (runner.level is Level.SAFE) == (succession.next_launch(state, "").level is Level.SAFE):
        return state, []
    what = "the mind has drifted" if why else "the mind is right again"
    return _replaced(state, runner, f"mind at {timestamp(now.wall)}", now, f"restart: {what}")


def _displaced(state: State, runner: Runner, now: Instant) -> Decision:
    """Its time to make way for main has passed. This is reported to the PM; the version is not blamed."""
    commit = state.main.commit[:12]
    why = f"{runner.title} did not make way for main, now at {commit}, within {state.patience.make_way:g} s"
    title = report_titles.watcher(f"{runner.title} was ended, main is active")
    identity = f"main at {commit} {timestamp(now.wall)}"
    state, actions = _replaced(state.noted(why, now), runner, identity, now)
    return state, [*actions, Tell(title, f"{why}. Its work in progress was interrupted.")]


def _time_is_up(state: State, now: Instant) -> Decision:
    runner = state.runner
    match state.phase:
        case Phase.BOOTING if runner and not state.request:
            late = f"{runner.title} was not healthy within {state.patience.boot:g} s"
            late += f": {state.unwell}" if state.unwell else ": it did not write SUCCESS"
            return runs.end(replace(state, failed=late), runner, now)
        case Phase.RUNNING if runner and not state.request:
            if state.make_way_by is not None and now.monotonic >= state.make_way_by and state.may_fail():
                return _displaced(state, runner, now)
            state = succession.credited(state, now)
            return replace(state, deadline=runs.look_again(state, now)), []
        case Phase.BOOTING | Phase.RUNNING if runner:
            return runs.end(state, runner, now)
        case Phase.ENDING if runner:
            # Repeated after each grace: a process in the kernel's hands (D state) ends when it comes back.
            return replace(state, deadline=now.monotonic + state.patience.grace), [End(runner, firmly=True)]
        case Phase.PREPARING:
            return runs.failed(state, state.preparing, None, "the preparation of the launch took too long", "", now)
        case Phase.WAITING:
            why = state.troubles[-1].text if state.troubles else "it failed"
            return succession.next_up(state, f"restart: {why}", now)
    return replace(state, deadline=None), []


def _stop_asked(state: State, now: Instant) -> Decision:
    if state.stopping:
        return state, []
    state = replace(state, stopping=True)
    if state.runner:
        return runs.end(state, state.runner, now) if state.phase is not Phase.ENDING else (state, [])
    # While STARTING, the answer to what is under way comes first.
    return (state, []) if state.phase is Phase.STARTING else succession.next_up(state, "", now)
