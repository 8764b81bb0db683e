"""What the watcher does about what happens: `decide(state, event, now)` gives the next state and the actions.

One runner at a time. A runner leaves by signalling and exiting; any other end is a failure: of a branch, then main
leads again at once; of main, then whoever the ladder says, after a growing delay. It never gives up. Durations are
taken on the monotonic clock, wall times are only written down for people."""

from __future__ import annotations

from msgspec.structs import replace

from infra.contract import report_titles, watcher_file
from infra.contract.branches import MAIN
from infra.contract.clock import timestamp
from infra.contract.signals import SignalName
from infra.contract.watcher_file import BootRecord, Request, Trouble, Version
from infra.supervision import ladder
from infra.supervision.restarts import delay_seconds, worth_telling
from infra.supervision.states import (
    Action,
    Asked,
    AskToEnd,
    Decision,
    Died,
    EndNow,
    Event,
    Exceeded,
    Hop,
    Instant,
    Launch,
    Launched,
    LaunchFailed,
    LaunchFound,
    Leave,
    LookAtMain,
    MainMoved,
    MainSeen,
    MainUnseen,
    Observed,
    Phase,
    Prepared,
    Preparing,
    RetryAsked,
    RollBack,
    RollbackFailed,
    RolledBack,
    Rung,
    Runner,
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

BOOTS_KEPT = 20
TROUBLES_KEPT = 10
HOPS_SECONDS = 600.0
HOPS_KEPT = 100


def decide(state: State, event: Event, now: Instant) -> Decision:
    """Say what the watcher becomes and what to do; touch nothing.

    Events about a runner that is gone change nothing, nor do answers to what was not asked."""
    starting = state.phase is Phase.STARTING and state.runner is None
    match event:
        case Started() if starting:
            return _started(state, event, now)
        case LaunchFound(branch) if state.request and _is_answered(state.request, branch, _BOOTSTRAP):
            return _settled(state), []
        case Launched(runner, reason) if starting:
            return _launched(state, runner, reason, now)
        case LaunchFailed() if starting and state.broken:
            return _next(state, "", now)
        case LaunchFailed(branch, why, version) if starting:
            return _failed(state, branch, version, f"{branch} could not be launched: {why}", "", now)
        case MainSeen(main, reason) if starting:
            state = _at_main(state, main)
            return (state, [ladder.lead(state, reason)]) if not state.stopping else _next(state, "", now)
        case MainUnseen(why) if starting:
            return _failed(state, MAIN, None, f"main could not be looked at: {why}", "", now)
        case MainMoved(main):
            moved = _at_main(state, main)
            if state.phase is Phase.WAITING and main.id != state.main.id:
                return _next(moved, "restart: main holds another version", now)
            return moved, []
        case RetryAsked():
            return _retry(ladder.unpinned(state), now)
        case Preparing() if starting and state.stopping:
            return _next(state, "", now)
        case Preparing(_, seconds) if starting:
            return _enter(state, Phase.PREPARING, now, deadline=now.monotonic + seconds), []
        case Prepared(launch, why_not) if state.phase is Phase.PREPARING:
            if why_not:
                return _failed(state, launch.branch, event.guilty, why_not, event.transcript, now)
            return _enter(state, Phase.STARTING, now), [Sweep(), launch]
        case Unwell(boot_id, why) if state.runner and _is_current(state, boot_id):
            return _unwell(state, state.runner, why, now)
        case Well(boot_id) if _is_current(state, boot_id):
            return replace(state, unwell=""), []
        case Exceeded(boot_id, why) if state.runner and _is_current(state, boot_id) and _may_fail(state):
            return _end(replace(state, failed=f"{_named(state.runner)} took too much: {why}"), state.runner, now)
        case Observed(title, text):
            return _note(state, text, now), [Tell(report_titles.watcher(title), text)]
        case Served(boot_id) if _is_current(state, boot_id) and state.phase is Phase.BOOTING:
            serving = replace(_enter(state, Phase.RUNNING, now), unwell="")
            serving = replace(serving, deadline=_look_again(serving, now))
            return _record(serving, boot_id, "success", "", now), []
        case Died(boot_id) if state.runner and _is_current(state, boot_id):
            return _died(state, state.runner, event, now)
        case Asked(request):
            return _asked(state, request, now)
        case SignalRefused(why, identity):
            return _note(state, why, now), [Tell(report_titles.watcher("a signal was refused"), why, identity)]
        case RolledBack(target, commit) if starting:
            told = Tell(
                report_titles.watcher(f"rolled back to {target}"),
                f"Main is now {commit[:12]}: the tree of {target}, as a new commit; COMMS.md is kept.",
            )
            # Another main than the one that failed: it begins with a fresh count.
            state, actions = _next(replace(_settled(state), failures=0), f"rollback to {target}", now)
            return state, [told, *actions]
        case RollbackFailed(target, why) if starting:
            told = Tell(report_titles.watcher(f"rollback to {target} failed"), f"{why}\nMain is as it was.")
            state, actions = _next(_note(_settled(state), why, now), "rollback failed", now)
            return state, [told, *actions]
        case TimeIsUp() if state.deadline is not None and now.monotonic >= state.deadline:
            return _time_is_up(state, now)
        case SealUnproved(boot_id, why) if state.runner and _is_current(state, boot_id) and not state.failed:
            why = f"while {_named(state.runner)} ran the seal could not be proved: {why}"
            failing = state if state.stopping else replace(state, failed=why)
            return _enter(failing, Phase.ENDING, now, now.monotonic + state.patience.grace), [EndNow(state.runner)]
        case SealBroken(why) if not state.broken:
            told = Tell(
                report_titles.watcher("the seal is broken, the agent is stopped"),
                f"{why}\nNothing of the agent runs any more; 'minifram restart' seals it anew.",
            )
            state, actions = _stop_asked(_note(replace(state, broken=why), why, now), now)
            return state, [*actions[:-1], told, *actions[-1:]] if Leave() in actions else [*actions, told]
        case StopAsked():
            return _stop_asked(state, now)
    return state, []


def _started(state: State, event: Started, now: Instant) -> Decision:
    runner = event.found
    if runner is None:
        for boot in state.boots:
            if boot.outcome == watcher_file.BOOTING and state.request:
                state = _record(state, boot.id, "left", _UNWATCHED, now)  # it has signalled, and went
            elif boot.outcome == watcher_file.BOOTING:
                state = _unwatched(_record(state, boot.id, "failed", _UNWATCHED, now), boot, now)
            elif boot.outcome == "success":
                state = _record(state, boot.id, "died", _UNWATCHED, now)
        return _start_anew(state, now)
    state = replace(state, runner=runner)
    if event.served:
        state = _record(state, runner.boot_id, "success", "", now)
    if state.stopping:
        return _end(state, runner, now)
    if event.served:
        began = Instant(now.monotonic - event.age, now.wall - event.age)
        state = replace(_enter(state, Phase.RUNNING, now), since=began)
        return replace(state, deadline=_look_again(state, now)), []
    return _enter(state, Phase.BOOTING, now, deadline=now.monotonic + state.patience.boot), []


def _unwatched(state: State, boot: BootRecord, now: Instant) -> State:
    """An attempt was spent and no watcher was left to see what came of it. Once or twice that is a power cut; then it
    is likelier what was led."""
    last = [each for each in state.boots if each.version == boot.version][-TRIES:]
    if len(last) < TRIES or any((each.outcome, each.detail) != ("failed", _UNWATCHED) for each in last):
        return state
    gone = Runner(boot.id, boot.branch, boot.commit, 0, 0.0, Rung(boot.rung), boot.version)
    return ladder.struck(state, gone, f"{TRIES} times in a row it {_UNWATCHED}", now).state


_UNWATCHED = "ended while no watcher was running"
TRIES = 3
"""So often a branch is launched that takes the watcher down with it before its launch can be noted."""


def _start_anew(state: State, now: Instant) -> Decision:
    request = state.request
    if request is None or request.name != SignalName.BOOTSTRAP.value:
        return _next(state, "start", now)
    last = state.boots[-TRIES:]
    fatal = [
        boot for boot in last if (boot.branch, boot.reason, boot.detail) == (request.target, _BOOTSTRAP, _UNWATCHED)
    ]
    if len(fatal) < TRIES:
        return _next(state, "start", now)
    why = f"bootstrap {request.target} was dropped: {TRIES} times no watcher was left when it had been launched"
    state, actions = _next(_settled(_note(state, why, now)), f"fallback: {why}", now)
    return state, [*actions, Tell(report_titles.watcher(f"{request.target} failed, main leads again"), f"{why}.")]


def _launched(state: State, runner: Runner, reason: str, now: Instant) -> Decision:
    boot = BootRecord(
        id=runner.boot_id,
        branch=runner.branch,
        commit=runner.commit,
        reason=reason,
        started_at=timestamp(now.wall),
        rung=runner.rung.value,
        version=runner.version,
    )
    boots = (*(old for old in state.boots if old.id != boot.id), boot)[-BOOTS_KEPT:]
    if state.request and _is_answered(state.request, runner.branch, _BOOTSTRAP if runner.branch == MAIN else reason):
        state = _settled(state)
    if runner.rung is Rung.BRANCH:
        state = replace(state, hops=(*state.hops, Hop(now.monotonic, runner.branch, state.main.id))[-HOPS_KEPT:])
    state = replace(state, runner=runner, boots=boots, failed="", unwell="")
    if state.stopping:
        return _end(state, runner, now)
    deadline = _leave_by(state, now) or now.monotonic + state.patience.boot
    return _enter(state, Phase.BOOTING, now, deadline=deadline), []


def _is_answered(request: Request, branch: str, reason: str) -> bool:
    return request.name == SignalName.BOOTSTRAP.value and request.target == branch and reason == _BOOTSTRAP


_BOOTSTRAP = "bootstrap"


def _died(state: State, runner: Runner, death: Died, now: Instant) -> Decision:
    how, guilty = death.how, None if death.outage else runner
    if state.failed:
        return _failed(state, runner.branch, guilty, f"{state.failed} ({how})", death.last_words, now)
    if state.phase is Phase.BOOTING and not state.stopping and not death.served:
        why = f"{_named(runner)} ended before SUCCESS: {how}"
        return _failed(state, runner.branch, guilty, why, death.last_words, now)
    if state.phase is Phase.BOOTING and death.served:
        state = _record(state, runner.boot_id, "success", "", now)
    if state.stopping or state.request:
        state = _credited(state, now)
        state = replace(_record(state, runner.boot_id, "left", how, now), runner=None)
        return _next(state, "", now)
    return _failed(state, runner.branch, guilty, f"{_named(runner)} died after SUCCESS: {how}", death.last_words, now)


def _failed(state: State, branch: str, guilty: Runner | None, why: str, last_words: str, now: Instant) -> Decision:
    """A launch or a life went wrong: main leads again, at once after a branch, after a delay after main.

    `guilty`: whose version's fault it may be; nobody's, when it is an outage."""
    runner = state.runner
    state = _credited(state, now)
    if runner:
        outcome = "died" if _outcome(state, runner.boot_id) == "success" else "failed"
        state = _record(state, runner.boot_id, outcome, why, now)
    state = replace(_note(state, why, now), runner=None, failed="")
    if state.request and _is_answered(state.request, branch, _BOOTSTRAP):
        state = _settled(state)
    text = f"{why}.{_quoted(last_words)}"
    state, pinned = ladder.struck(state, guilty, why, now) if guilty else (state, False)
    if branch != MAIN:
        told = Tell(report_titles.watcher(f"{branch} failed, main leads again"), text)
        state, actions = _next(state, f"fallback: {why}", now)
        # Main first, the report after: the PM reads the reason while main is already starting.
        return state, [*actions, told] if not state.stopping else [told, *actions]
    failures = state.failures + 1
    state = replace(state, failures=failures)
    told_now: list[Action] = []
    if pinned and guilty:
        title = report_titles.watcher(f"{_named(guilty)} is pinned, an earlier version leads")
        told_now = [Tell(title, f"{text}\n\n{_UNTIL}")]
    elif worth_telling(failures):
        told_now = [Tell(report_titles.watcher(f"main failed ({failures} in a row), trying again"), text)]
    seed = runner.boot_id if runner else ""
    # Whoever is next has failed nowhere yet, unless all of them have.
    delay = 0.0 if pinned and not state.forgiven else delay_seconds(failures, seed)
    if delay == 0.0 or state.stopping or state.request:
        state, actions = _next(state, f"restart: {why}", now)
        return state, [*actions, *told_now] if not state.stopping else [*told_now, *actions]
    return _enter(state, Phase.WAITING, now, deadline=now.monotonic + delay), [Sweep(), *told_now]


_UNTIL = (
    "It is not led again until main holds another version, or you ask for it with 'minifram retry'. Main itself is as "
    "it was."
)


def _at_main(state: State, main: Version) -> State:
    """Another version than the one that failed begins with a fresh count."""
    return replace(state, main=main, failures=0 if main.id != state.main.id else state.failures)


def _credited(state: State, now: Instant) -> State:
    """Who has served for long has earned a fresh count, however it leaves; a branch is soon gone and earns nothing."""
    runner, served = state.runner, now.monotonic - state.since.monotonic
    if not runner or runner.rung is Rung.BRANCH or state.phase is not Phase.RUNNING:
        return state
    if served >= ladder.STEADY_SECONDS:
        state = ladder.steady(state, runner)
    return replace(ladder.lived(state, runner), failures=0) if served >= state.patience.probation else state


def _look_again(state: State, now: Instant) -> float | None:
    """When something is due while a runner serves: its exit, or what a long service earns."""
    if state.request or not state.runner or state.runner.rung is Rung.BRANCH:
        return _leave_by(state, now)
    since = state.since.monotonic
    moments = (since + state.patience.probation, since + ladder.STEADY_SECONDS)
    return next((moment for moment in moments if moment > now.monotonic), None)


def _next(state: State, reason: str, now: Instant) -> Decision:
    """No runner is alive: carry out what was asked for, else start main."""
    if state.stopping:
        # Somebody ended it on purpose: who starts it again wants to see it try, not wait.
        return _enter(replace(state, failures=0), Phase.STOPPED, now), [Sweep(), Leave()]
    request = state.request
    state = _enter(state, Phase.STARTING, now)
    if request is None:
        return state, [Sweep(), LookAtMain(reason or "restart")]
    if request.name == SignalName.ROLLBACK.value:
        return state, [Sweep(), RollBack(request.target)]
    if request.target == MAIN:
        return state, [Sweep(), LookAtMain(_BOOTSTRAP)]
    if _leads_nowhere(state, request.target, now):
        times = f"{state.patience.hops} times in {HOPS_SECONDS / 60:.0f} minutes"
        why = f"{request.target} led {times}, and main is as it was"
        told = Tell(report_titles.watcher(f"{request.target} leads nowhere, main leads again"), f"{why}.")
        return _settled(_note(state, why, now)), [Sweep(), LookAtMain(f"fallback: {why}"), told]
    return state, [Sweep(), Launch(request.target, _BOOTSTRAP)]


def _leads_nowhere(state: State, branch: str, now: Instant) -> bool:
    """The two hand over to each other, and nothing comes of it."""
    since = now.monotonic - HOPS_SECONDS
    lately = [hop for hop in state.hops if hop.at >= since and (hop.branch, hop.main) == (branch, state.main.id)]
    return len(lately) >= state.patience.hops


def _asked(state: State, request: Request, now: Instant) -> Decision:
    if request.identity == state.handled or (state.request and request.identity == state.request.identity):
        return state, []
    if state.phase is Phase.PREPARING:
        # No runner lives: who signals now is what is being tried out, and must not keep its own trial from ending.
        why = f"{request.name} {request.target} was dropped: it came out of a rehearsal"
        return _note(state, why, now), []
    waiting = state.request
    if waiting and waiting.name == SignalName.ROLLBACK.value and request.name == SignalName.BOOTSTRAP.value:
        why = f"bootstrap {request.target} was dropped: a rollback to {waiting.target} is under way"
        return _note(state, why, now), []
    if waiting:
        why = f"{waiting.name} {waiting.target} was dropped: {request.name} {request.target} came after it"
        state = _note(state, why, now)
    state = replace(state, request=request)
    if state.phase in (Phase.BOOTING, Phase.RUNNING):
        return replace(state, deadline=_leave_by(state, now)), []
    if state.phase is Phase.WAITING:
        return _next(state, "", now)
    return state, []


def _retry(state: State, now: Instant) -> Decision:
    """Main is tried at once, unless somebody leads who was asked for."""
    if state.phase is Phase.WAITING:
        return _next(state, "restart: the PM asked for it", now)
    stands_in = state.runner is not None and state.runner.rung in (Rung.GOOD, Rung.SAFE)
    if stands_in and state.runner and _may_fail(state):
        asked = Request(name=SignalName.BOOTSTRAP.value, target=MAIN, identity=f"retry at {timestamp(now.wall)}")
        return _end(replace(state, request=asked), state.runner, now)
    return state, []


def _unwell(state: State, runner: Runner, why: str, now: Instant) -> Decision:
    """One odd answer may be a busy machine's; a boot may still become well until its time is up."""
    if state.phase is Phase.RUNNING and state.unwell and _may_fail(state):
        failed = f"{_named(runner)} was not well, twice in a row: {state.unwell}; {why}"
        return _end(replace(state, failed=failed), runner, now)
    return replace(state, unwell=why), []


def _may_fail(state: State) -> bool:
    """It leads, and is not on its way out already."""
    return state.phase in (Phase.BOOTING, Phase.RUNNING) and not (state.stopping or state.request or state.failed)


def _asked_for(state: State) -> str:
    return state.request.target if state.request and state.request.name == SignalName.BOOTSTRAP.value else MAIN


def _leave_by(state: State, now: Instant) -> float | None:
    """A runner that has signalled is to leave by itself within the grace."""
    return now.monotonic + state.patience.grace if state.request else None


def _time_is_up(state: State, now: Instant) -> Decision:
    match state.phase:
        case Phase.BOOTING if state.runner and not state.request:
            late = f"{_named(state.runner)} was not seen to be well within {state.patience.boot:g} s"
            late += f": {state.unwell}" if state.unwell else ": it did not say SUCCESS"
            return _end(replace(state, failed=late), state.runner, now)
        case Phase.RUNNING if state.runner and not state.request:
            state = _credited(state, now)
            return replace(state, deadline=_look_again(state, now)), []
        case Phase.BOOTING | Phase.RUNNING if state.runner:
            return _end(state, state.runner, now)
        case Phase.ENDING if state.runner:
            # Asked again at each grace: a process in the kernel's hands (D state) ends when it comes back.
            return replace(state, deadline=now.monotonic + state.patience.grace), [EndNow(state.runner)]
        case Phase.PREPARING:
            return _failed(
                state, _asked_for(state), None, "what had to be done before the launch took too long", "", now
            )
        case Phase.WAITING:
            why = state.troubles[-1].text if state.troubles else "it failed"
            return _next(state, f"restart: {why}", now)
    return replace(state, deadline=None), []


def _stop_asked(state: State, now: Instant) -> Decision:
    if state.stopping:
        return state, []
    state = replace(state, stopping=True)
    if state.runner is None:
        return (state, []) if state.phase is Phase.STARTING else _next(state, "", now)
    return _end(state, state.runner, now) if state.phase is not Phase.ENDING else (state, [])


def _end(state: State, runner: Runner, now: Instant) -> Decision:
    deadline = now.monotonic + state.patience.grace
    state = _credited(state, now)
    return _enter(state, Phase.ENDING, now, deadline=deadline), [AskToEnd(runner)]


def _enter(state: State, phase: Phase, now: Instant, deadline: float | None = None) -> State:
    return replace(state, phase=phase, since=now, deadline=deadline)


def _settled(state: State) -> State:
    return replace(state, request=None, handled=state.request.identity if state.request else state.handled)


def _is_current(state: State, boot_id: str) -> bool:
    return state.runner is not None and state.runner.boot_id == boot_id


def _record(state: State, boot_id: str, outcome: str, detail: str, now: Instant) -> State:
    def updated(boot: BootRecord) -> BootRecord:
        ended_at = "" if outcome == "success" else timestamp(now.wall)
        return replace(boot, outcome=outcome, ended_at=ended_at, detail=detail)

    boots = tuple(updated(boot) if boot.id == boot_id else boot for boot in state.boots)
    return replace(state, boots=boots)


def _outcome(state: State, boot_id: str) -> str:
    return next((boot.outcome for boot in state.boots if boot.id == boot_id), "")


def _note(state: State, text: str, now: Instant) -> State:
    trouble = Trouble(at=timestamp(now.wall), text=text)
    return replace(state, troubles=(*state.troubles, trouble)[-TROUBLES_KEPT:])


def _named(runner: Runner) -> str:
    return report_titles.version(runner.branch, runner.commit)


def _quoted(last_words: str) -> str:
    if not last_words.strip():
        return ""
    lines = "\n".join(f"    {line}" for line in last_words.strip().splitlines())
    return f" Its last words:\n\n{lines}"
