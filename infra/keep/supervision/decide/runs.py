"""How a runner begins and ends, and what its end means for its version."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep import watcher_file
from infra.keep.active import Level, Runner
from infra.keep.services.backoff import delay_seconds, worth_reporting
from infra.keep.supervision.decide import events, succession
from infra.keep.supervision.decide.events import Action, Decision, Died, End, LaunchFailed, StartRunner, Sweep, Tell
from infra.keep.supervision.decide.state import BOOTS_KEPT, Instant, Phase, State
from infra.keep.supervision.decide.succession import STABLE_SECONDS, TRIES, UNWATCHED, credited, is_answered, next_up
from infra.keep.watcher_file import BootRecord
from infra.shared import report_titles
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp


def started(state: State, event: events.Started, now: Instant) -> Decision:
    """The watcher begins: adopt the runner of an earlier one, or record that it is gone."""
    if is_answered(state.request, event.launched):
        state = state.settled()
    runner = event.found
    if runner is None:
        for boot in state.boots:
            if boot.outcome == watcher_file.BOOTING and state.request:
                state = state.recorded(boot.id, "left", UNWATCHED, now)  # it signalled, and exited
            elif boot.outcome == watcher_file.BOOTING:
                state = _unwatched(state.recorded(boot.id, "failed", UNWATCHED, now), boot, now)
            elif boot.outcome == "success":
                state = state.recorded(boot.id, "died", UNWATCHED, now)
        return succession.first_launch(state, now)
    state = replace(state, runner=runner)
    if event.served:
        state = state.recorded(runner.boot_id, "success", "", now)
    if state.stopping:
        return end(state, runner, now)
    if event.served:
        began = Instant(now.monotonic - event.age, now.wall - event.age)
        state = replace(state.entered(Phase.RUNNING, now), since=began)
        return replace(state, deadline=look_again(state, now)), []
    return state.entered(Phase.BOOTING, now, deadline=now.monotonic + state.patience.boot), []


def _unwatched(state: State, boot: BootRecord, now: Instant) -> State:
    """A boot failed while no watcher was running. Once or twice may be a power cut; after that the version is the
    likelier cause."""
    last = [each for each in state.boots if each.version == boot.version][-TRIES:]
    if len(last) < TRIES or any((each.outcome, each.detail) != ("failed", UNWATCHED) for each in last):
        return state
    gone = Runner(boot.id, boot.branch, boot.commit, 0, 0.0, Level(boot.level), boot.version)
    return succession.blamed(state, gone, f"{TRIES} times in a row it {UNWATCHED}", now)


def attempted(state: State, event: events.LaunchReady, now: Instant) -> Decision:
    """The request stays until the runner is known to live, so that a crash in between repeats the launch."""
    runner = event.runner
    boot = BootRecord(
        id=runner.boot_id,
        branch=runner.branch,
        commit=runner.commit,
        reason=event.reason,
        started_at=timestamp(now.wall),
        level=runner.level.value,
        version=runner.version,
    )
    state = replace(state, attempt=runner, boots=(*state.boots, boot)[-BOOTS_KEPT:])
    return state.entered(Phase.STARTING, now), [StartRunner(runner)]


def launched(state: State, runner: Runner, now: Instant) -> Decision:
    """The process of the recorded attempt runs; it has to become well."""
    if is_answered(state.request, runner.branch):
        state = state.settled()
    if runner.level is Level.BRANCH:
        state = succession.hopped(state, runner.branch, now)
    state = replace(state, runner=runner, attempt=None, failed="", unwell="", make_way_by=None)
    state = succession.watched(state, now)
    if state.stopping:
        return end(state, runner, now)
    deadline = state.leave_by(now) or now.monotonic + state.patience.boot
    return state.entered(Phase.BOOTING, now, deadline=deadline), []


def not_launched(state: State, event: LaunchFailed, now: Instant) -> Decision:
    """What was recorded as attempted never began."""
    if state.attempt:
        boots = tuple(boot for boot in state.boots if boot.id != state.attempt.boot_id)
        state = replace(state, attempt=None, boots=boots)
    if state.broken:
        return next_up(state, "", now)
    why = f"{event.branch} could not be launched: {event.why}"
    return failed(state, event.branch, event.guilty, why, event.transcript, now)


def died(state: State, runner: Runner, death: Died, now: Instant) -> Decision:
    """A runner that signalled, or was asked to end, may exit; any other end is a failure."""
    how, guilty = death.how, None if death.outage else runner
    if state.failed:
        return failed(state, runner.branch, guilty, f"{state.failed} ({how})", death.last_words, now)
    if state.phase is Phase.BOOTING and death.served:
        state = state.recorded(runner.boot_id, "success", "", now)
    if state.stopping or (state.request and (state.phase is not Phase.BOOTING or death.served)):
        state = credited(state, now)
        state = replace(state.recorded(runner.boot_id, "left", how, now), runner=None)
        return next_up(state, "", now)
    when = "ended before" if state.phase is Phase.BOOTING and not death.served else "died after"
    why = f"{runner.title} {when} SUCCESS: {how}"
    if guilty and state.may_leave == runner.boot_id and death.outside:
        guilty = None  # it exited for a branch that does not exist
    elif guilty and death.outside and succession.is_known_good(credited(state, now), runner):
        # Somebody killed it. A version that has not proved itself yet may as well have killed itself.
        guilty, why = None, f"{why}; this version has worked before, and the cause may be external"
    return failed(state, runner.branch, guilty, why, death.last_words, now)


def failed(state: State, branch: str, guilty: Runner | None, why: str, last_words: str, now: Instant) -> Decision:
    """A launch or a run failed: main runs again, at once after a branch, after a delay after main.

    `guilty`: the version that may be at fault; None for an outage."""
    runner = state.runner
    state = credited(state, now)
    if runner:
        served = any(boot.id == runner.boot_id and boot.outcome == "success" for boot in state.boots)
        state = state.recorded(runner.boot_id, "died" if served else "failed", why, now)
    state = replace(state.noted(why, now), runner=None, failed="")
    if is_answered(state.request, branch):
        state = state.settled()
    text = f"{why}."
    if last_words.strip():  # as a block that markdown leaves alone
        text += " Its last output:\n\n" + "\n".join(f"    {line}" for line in last_words.strip().splitlines())
    pins = state.pins
    state = succession.blamed(state, guilty, why, now) if guilty else state
    pinned = guilty is not None and state.pins != pins and succession.pin_of(state, guilty.version) is not None
    if branch != MAIN:
        told = Tell(report_titles.watcher(f"{branch} failed, main is active again"), text)
        state, actions = next_up(state, f"fallback: {why}", now)
        # Main first, the report after: the PM reads the reason while main is already starting.
        return state, [*actions, told]
    state = replace(state, failures=state.failures + 1)
    reports: list[Action] = []
    if pinned and guilty:
        active = _ACTIVE[succession.next_launch(state, "").level]
        title = report_titles.watcher(f"{guilty.title} is pinned, {active} is active")
        reports = [Tell(title, f"{text}\n\n{_UNTIL}")]
    elif worth_reporting(state.failures):
        who = runner.level.value if runner else MAIN
        reports = [Tell(report_titles.watcher(f"{who} failed ({state.failures} in a row), trying again"), text)]
    # The version that is next has failed nowhere yet, unless all of them have.
    seed = runner.boot_id if runner else ""
    delay = 0.0 if pinned and not state.safe_mode_failures else delay_seconds(state.failures, seed)
    if delay == 0.0 or state.stopping or state.request:
        state, actions = next_up(state, f"restart: {why}", now)
        return state, [*actions, *reports]
    return state.entered(Phase.WAITING, now, deadline=now.monotonic + delay), [Sweep(), *reports]


_ACTIVE = {Level.MAIN: MAIN, Level.GOOD: "an earlier version", Level.SAFE: "safe mode"}
_UNTIL = (
    "The watcher does not start this version again until main holds another version, or you run 'minifram retry'. Main "
    "itself is unchanged."
)


def look_again(state: State, now: Instant) -> float | None:
    """When something is due while a runner serves: its exit, or the credit for a long service."""
    if state.request or not state.runner:
        return state.leave_by(now)
    credits = (state.patience.probation, STABLE_SECONDS) if state.runner.level is not Level.BRANCH else ()
    moments = [
        state.since.monotonic + seconds for seconds in credits if state.since.monotonic + seconds > now.monotonic
    ]
    return min([*moments, *([state.make_way_by] if state.make_way_by is not None else [])], default=None)


def end(state: State, runner: Runner, now: Instant) -> Decision:
    """Ask it to exit within the grace period."""
    deadline = now.monotonic + state.patience.grace
    return credited(state, now).entered(Phase.ENDING, now, deadline=deadline), [End(runner)]
