"""What the watcher does about an event: `decide(state, event, now)` gives the next state and the actions.

One runner at a time. A runner exits after it has signalled; any other end is a failure. When a branch fails, main runs
again at once; when main fails, `succession` says what runs next, after a growing delay. The watcher never gives up."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from infra.keep.supervision.decide import events
from infra.keep.supervision.decide.events import Action, Decision, Died, End, Event, Start, Tell
from infra.keep.supervision.decide.succession import (
    blamed,
    credited,
    delay,
    main_seen,
    makes_way,
    next_up,
    of_main,
    watched,
)
from infra.keep.watcher_file import BOOTS_KEPT, BootRecord, Instant, Level, Outcome, Phase, Request, Runner, State
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.signals import FALLBACK, SignalName


def decide(state: State, event: Event, now: Instant) -> Decision:
    """Touches nothing. Events about a runner that is gone change nothing, nor do answers to what was not asked."""
    is_starting = state.phase is Phase.STARTING and not state.active.pid
    match event:
        case events.Started():
            return _started(state, now)
        case events.Ready(runner, reason) if is_starting and state.runner is None:
            return _ready(state, runner, reason, now)
        case events.Launched(boot_id, pid) if is_starting and (attempt := state.current(boot_id)):
            return _launched(state, replace(attempt, pid=pid), now)
        case events.NotLaunched(branch, why, guilty, transcript) if is_starting:
            return _failed(state, branch, guilty, f"{branch} could not be launched: {why}", transcript, now)
        case events.Served(boot_id) if state.phase is Phase.BOOTING and state.current(boot_id):
            state = state.recorded(boot_id, Outcome.SUCCESS, "", now)
            return watched(state.entered(Phase.RUNNING, now, state.patience.grace if state.request else None), now), []
        case events.MustEnd(boot_id, why) if state.may_fail() and (current := state.current(boot_id)):
            return _end(replace(state, failed=f"{current.title} was ended: {why}"), current, now)
        case Died(boot_id) if current := state.current(boot_id):
            return _died(state, current, event, now)
        case events.RolledBack() if is_starting and state.runner is None:
            return _rolled_back(state, event, now)
        case events.TimeIsUp() if state.deadline is not None and now.watch >= state.deadline:
            return _time_is_up(state, now)
        case _:
            return _asked_from_outside(state, event, now)


def _asked_from_outside(state: State, event: Event, now: Instant) -> Decision:
    """What the cell, the PM and the repository have to say, at any time."""
    match event:
        case events.MainSeen(main, goods):
            moved = main_seen(state, main, goods, now)
            if state.phase is Phase.WAITING and main.id != state.main.id:
                return next_up(moved, "restart: main holds another version", now)
            return moved, []
        case events.Asked(request):
            return _asked(state, request, now)
        case events.RetryAsked():
            return _retried(replace(state, strikes=(), failures=0), now)
        case events.MindDrifted(why):
            return _drifted(replace(state, drifted=why), now)
        case events.Observed(title, text, about):
            return state.noted(text, now), [Tell(title, text, about)]
        case events.StopAsked() if not state.stopping:
            return _stop(replace(state, stopping=True), now)
    return state, []


def _started(state: State, now: Instant) -> Decision:
    """Whoever ran ended with the watcher before. A boot that was cut short counts like any other failed boot, so that
    nothing whose start takes the watcher down is started for ever."""
    runner = state.runner
    if runner is None:
        return next_up(state, "start", now)
    if state.request or state.phase in (Phase.RUNNING, Phase.ENDING):
        outcome = Outcome.LEFT if state.request else Outcome.DIED
        state = state.recorded(runner.boot_id, outcome, "it ended with its watcher", now)
        return next_up(replace(state, runner=None, failed=""), "start", now)
    return _failed(state, runner.branch, runner, f"{runner.title} ended with its watcher, before SUCCESS", "", now)


def _ready(state: State, runner: Runner, reason: str, now: Instant) -> Decision:
    """The attempt is written down before it is made, and with it its signal is carried out, once."""
    boot = BootRecord(**asdict(runner), reason=reason, started_at=timestamp(now.wall))
    state = state.settled() if state.is_for(runner.branch) else state
    state = replace(state, runner=runner, boots=(*state.boots, boot)[-BOOTS_KEPT:], make_way_by=None)
    return makes_way(state, now), [Start(runner)]


def _launched(state: State, runner: Runner, now: Instant) -> Decision:
    state = state.hopped(runner.branch, now) if runner.level is Level.BRANCH else state
    state = replace(state, runner=runner, failed="").entered(Phase.BOOTING, now, state.patience.boot)
    return _end(state, runner, now) if state.stopping or state.request else (state, [])


def _rolled_back(state: State, event: events.RolledBack, now: Instant) -> Decision:
    if event.problem:
        title, text = f"rollback to {event.target} failed", f"{event.problem}\nMain is unchanged."
        state, actions = next_up(state.noted(event.problem, now).settled(), f"{FALLBACK}{title}", now)
    else:
        title, commit = f"rolled back to {event.target}", event.commit[:12]
        text = f"Main is now {commit}: the tree of {event.target}, as a new commit; COMMS.md is kept."
        state = replace(state, failures=0).settled()  # another main than the one that failed
        state, actions = next_up(state, f"rollback to {event.target}", now, fresh=True)
    return state, [*actions, Tell(title, text)]


def _end(state: State, runner: Runner, now: Instant) -> Decision:
    """Ask it to exit within the grace."""
    return credited(state, now).entered(Phase.ENDING, now, state.patience.grace), [End(runner)]


def _main_instead(state: State, runner: Runner, why: str, now: Instant) -> Decision:
    """Main takes its place, and no version is blamed."""
    request = Request(name=SignalName.BOOTSTRAP.value, target=MAIN, why=f"restart: {why}")
    return _end(replace(state, request=request), runner, now)


def _died(state: State, runner: Runner, death: Died, now: Instant) -> Decision:
    """A runner that signalled, or was asked to end, may exit; any other end is a failure."""
    served = death.served or state.phase is not Phase.BOOTING
    if state.phase is Phase.BOOTING and served:
        state = state.recorded(runner.boot_id, Outcome.SUCCESS, "", now)
    if not state.failed and (state.stopping or (state.request and served)):
        state = credited(state, now).recorded(runner.boot_id, Outcome.LEFT, death.how, now)
        return next_up(replace(state, runner=None), "", now)
    why = f"{runner.title} {'died after' if served else 'ended before'} SUCCESS: {death.how}"
    why = f"{state.failed} ({death.how})" if state.failed else why
    guilty = None if death.outage else runner
    if guilty and not state.failed and death.from_outside and credited(state, now).is_good(runner):
        # A version that has not proved itself yet may as well have killed itself.
        guilty, why = None, f"{why}; this version has worked before, and the cause may be external"
    return _failed(state, runner.branch, guilty, why, death.last_words, now)


def _failed(state: State, branch: str, guilty: Runner | None, why: str, last_words: str, now: Instant) -> Decision:
    """A launch or a run failed: after a branch main runs at once; after main what is next, with a growing delay."""
    runner, state = state.runner, credited(state, now)
    if runner:
        lived = any(boot.boot_id == runner.boot_id and boot.outcome is Outcome.SUCCESS for boot in state.boots)
        state = state.recorded(runner.boot_id, Outcome.DIED if lived else Outcome.FAILED, why, now)
    state = replace(state.noted(why, now), runner=None, failed="")
    state = state.settled() if state.is_for(branch) else state
    state = blamed(state, guilty, why, now) if guilty else state
    text = f"{why}." + (f" Its last output:\n\n{_indented(last_words)}" if last_words.strip() else "")
    if branch != MAIN:
        state, actions = next_up(state, f"{FALLBACK}{why}", now)
        # Main first, the report after: the PM reads the reason while main is already starting.
        return state, [*actions, Tell(f"{branch} failed, main is active again", text)]
    state = replace(state, failures=state.failures + 1)
    reports, pause = list[Action](), delay(state.failures)
    if guilty and state.pin_of(guilty.version):
        active, pause = of_main(state, "").level.value, 0.0  # what is next has failed nowhere yet
        reports = [Tell(f"{guilty.title} is pinned, {active} is active", f"{text}\n\n{_UNTIL}")]
    elif state.failures & (state.failures - 1) == 0:  # 1, 2, 4, 8 …: a crash loop must not flood the page
        who = runner.level.value if runner else MAIN
        reports = [Tell(f"{who} failed ({state.failures} in a row), trying again", text)]
    if pause and not (state.stopping or state.request):
        return state.entered(Phase.WAITING, now, pause), reports
    state, actions = next_up(state, f"restart: {why}", now)
    return state, [*actions, *reports]


_UNTIL = (
    "The watcher does not start this version again until main holds another version, or you run 'minifram retry'. Main "
    "itself is unchanged."
)


def _indented(text: str) -> str:
    """A block that markdown leaves alone."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


def _asked(state: State, request: Request, now: Instant) -> Decision:
    """The last signal counts, but a rollback comes before any bootstrap; the same file counts once."""
    waiting = state.request
    if request.identity and request.identity in (state.handled, waiting.identity if waiting else ""):
        return state, []
    if waiting:
        # A branch under rehearsal could signal for itself, and must not keep its rehearsal from ending.
        is_bootstrap = request.name == SignalName.BOOTSTRAP.value
        stays = is_bootstrap and (waiting.name != request.name or waiting.target == request.target)
        kept, dropped = (waiting, request) if stays else (request, waiting)
        what = f"{dropped.name} {dropped.target} was dropped: {kept.name} {kept.target} is to be carried out"
        state = state.noted(what, now)
        if stays:
            return state, []
    is_launching = state.phase is Phase.STARTING and state.runner is None
    if waiting and is_launching and waiting.target != MAIN:
        state = state.hopped(waiting.target, now)  # two branches whose rehearsals ask for each other are hops, too
    state = replace(state, request=request)
    if state.phase in (Phase.BOOTING, Phase.RUNNING):
        return replace(state, deadline=now.watch + state.patience.grace), []
    return next_up(state, "", now) if is_launching or state.phase is Phase.WAITING else (state, [])


def _retried(state: State, now: Instant) -> Decision:
    if state.phase is Phase.WAITING:
        return next_up(state, "restart: the PM requested it", now)
    if state.runner and state.runner.level in (Level.GOOD, Level.SAFE) and state.may_fail():
        return _main_instead(state, state.runner, "the PM requested it", now)
    return state, []


def _drifted(state: State, now: Instant) -> Decision:
    """Safe mode takes the place of what runs, and makes way again when the mind is right."""
    runner, next_level = state.runner, of_main(state, "").level
    if runner and state.may_fail() and (runner.level is Level.SAFE) != (next_level is Level.SAFE):
        what = "the mind has drifted" if state.drifted else "the mind is right again"
        return _main_instead(state, runner, what, now)
    return state, []


def _time_is_up(state: State, now: Instant) -> Decision:
    runner = state.runner
    match state.phase:
        case Phase.BOOTING if runner and not state.request:
            late = f"{runner.title} did not write SUCCESS within {state.patience.boot:g} s"
            return _end(replace(state, failed=late), runner, now)
        case Phase.RUNNING if runner and not state.request:
            if state.make_way_by is None or now.watch < state.make_way_by:
                return watched(credited(state, now), now), []
            commit, seconds = state.main.commit[:12], state.patience.make_way
            why = f"{runner.title} did not make way for main, now at {commit}, within {seconds:g} s"
            state, actions = _main_instead(state.noted(why, now), runner, why, now)
            told = Tell(f"{runner.title} was ended, main is active", f"{why}. Its work in progress was interrupted.")
            return state, [*actions, told]
        case Phase.BOOTING | Phase.RUNNING if runner:
            return _end(state, runner, now)
        case Phase.ENDING if runner:  # again after each grace: a process in the kernel's hands ends when it comes back
            return replace(state, deadline=now.watch + state.patience.grace), [End(runner, firmly=True)]
        case Phase.WAITING:
            why = state.troubles[-1].text if state.troubles else "it failed"
            return next_up(state, f"restart: {why}", now)
    return replace(state, deadline=None), []


def _stop(state: State, now: Instant) -> Decision:
    if state.phase is Phase.ENDING or (state.runner and not state.runner.pid):
        return state, []  # the end, or the answer to Start, comes first
    return _end(state, state.runner, now) if state.runner else next_up(state, "", now)
