"""Part of `decide`: how a runner begins and ends, and what its end means for what it was of."""

from __future__ import annotations

from msgspec.structs import replace

from infra.keep.services.restarts import delay_seconds, worth_telling
from infra.keep.supervision import ladder
from infra.keep.supervision.records import (
    BOOTS_KEPT,
    credited,
    entered,
    named,
    noted,
    outcome_of,
    quoted,
    recorded,
    settled,
)
from infra.keep.supervision.states import Action, AskToEnd, Decision, Died, Instant, Phase, Started, State, Sweep, Tell
from infra.keep.supervision.succession import (
    BOOTSTRAP,
    TRIES,
    UNWATCHED,
    hopped,
    is_answered,
    leave_by,
    next_up,
    start_anew,
    watched,
)
from infra.shared import report_titles, watcher_file
from infra.shared.active import Level, Runner
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.watcher_file import BootRecord


def started(state: State, event: Started, now: Instant) -> Decision:
    """The watcher begins: what an earlier one left is taken over, what it could not see is written down."""
    runner = event.found
    if runner is None:
        for boot in state.boots:
            if boot.outcome == watcher_file.BOOTING and state.request:
                state = recorded(state, boot.id, "left", UNWATCHED, now)  # it has signalled, and went
            elif boot.outcome == watcher_file.BOOTING:
                state = _unwatched(recorded(state, boot.id, "failed", UNWATCHED, now), boot, now)
            elif boot.outcome == "success":
                state = recorded(state, boot.id, "died", UNWATCHED, now)
        return start_anew(state, now)
    state = replace(state, runner=runner)
    if event.served:
        state = recorded(state, runner.boot_id, "success", "", now)
    if state.stopping:
        return end(state, runner, now)
    if event.served:
        began = Instant(now.monotonic - event.age, now.wall - event.age)
        state = replace(entered(state, Phase.RUNNING, now), since=began)
        return replace(state, deadline=look_again(state, now)), []
    return entered(state, Phase.BOOTING, now, deadline=now.monotonic + state.patience.boot), []


def _unwatched(state: State, boot: BootRecord, now: Instant) -> State:
    """An attempt was spent and no watcher was left to see what came of it. Once or twice that is a power cut; then it
    is likelier what was led."""
    last = [each for each in state.boots if each.version == boot.version][-TRIES:]
    if len(last) < TRIES or any((each.outcome, each.detail) != ("failed", UNWATCHED) for each in last):
        return state
    gone = Runner(boot.id, boot.branch, boot.commit, 0, 0.0, Level(boot.level), boot.version)
    return ladder.blamed(state, gone, f"{TRIES} times in a row it {UNWATCHED}", now).state


def launched(state: State, runner: Runner, reason: str, now: Instant) -> Decision:
    """A runner was started; its boot is recorded, and awaited."""
    boot = BootRecord(
        id=runner.boot_id,
        branch=runner.branch,
        commit=runner.commit,
        reason=reason,
        started_at=timestamp(now.wall),
        level=runner.level.value,
        version=runner.version,
    )
    boots = (*(old for old in state.boots if old.id != boot.id), boot)[-BOOTS_KEPT:]
    if state.request and is_answered(state.request, runner.branch, BOOTSTRAP if runner.branch == MAIN else reason):
        state = settled(state)
    if runner.level is Level.BRANCH:
        state = hopped(state, runner.branch, now)
    state = watched(replace(state, runner=runner, boots=boots, failed="", unwell="", make_way_by=None), now)
    if state.stopping:
        return end(state, runner, now)
    deadline = leave_by(state, now) or now.monotonic + state.patience.boot
    return entered(state, Phase.BOOTING, now, deadline=deadline), []


def died(state: State, runner: Runner, death: Died, now: Instant) -> Decision:
    """Whoever has signalled, or was asked to end, may; any other end is a failure."""
    how, guilty = death.how, None if death.outage else runner
    if state.failed:
        return failed(state, runner.branch, guilty, f"{state.failed} ({how})", death.last_words, now)
    if state.phase is Phase.BOOTING and death.served:
        state = recorded(state, runner.boot_id, "success", "", now)
    if state.stopping or (state.request and (state.phase is not Phase.BOOTING or death.served)):
        state = credited(state, now)
        state = replace(recorded(state, runner.boot_id, "left", how, now), runner=None)
        return next_up(state, "", now)
    when = "ended before" if state.phase is Phase.BOOTING and not death.served else "died after"
    why = f"{named(runner)} {when} SUCCESS: {how}"
    if guilty and state.may_leave == runner.boot_id and death.outside:
        guilty = None  # it would have been led again anyway, by the branch that it asked for
    elif guilty and _is_others_doing(state, runner, death, now):
        guilty, why = None, f"{why}; this version has lived, and nothing shows that it ended of itself"
    return failed(state, runner.branch, guilty, why, death.last_words, now)


def _is_others_doing(state: State, runner: Runner, death: Died, now: Instant) -> bool:
    """Killed from outside, and known to be able to live: that needs a delay before the next start, and no pin.

    A version that has not proved itself yet may as well have killed itself."""
    known_good = credited(state, now).known_good
    return death.outside and (runner.level is Level.SAFE or any(good.id == runner.version for good in known_good))


def failed(state: State, branch: str, guilty: Runner | None, why: str, last_words: str, now: Instant) -> Decision:
    """A launch or a life went wrong: main leads again, at once after a branch, after a delay after main.

    `guilty`: whose version's fault it may be; nobody's, when it is an outage."""
    runner = state.runner
    state = credited(state, now)
    if runner:
        outcome = "died" if outcome_of(state, runner.boot_id) == "success" else "failed"
        state = recorded(state, runner.boot_id, outcome, why, now)
    state = replace(noted(state, why, now), runner=None, failed="")
    if state.request and is_answered(state.request, branch, BOOTSTRAP):
        state = settled(state)
    text = f"{why}.{quoted(last_words)}"
    state, pinned = ladder.blamed(state, guilty, why, now) if guilty else (state, False)
    if branch != MAIN:
        told = Tell(report_titles.watcher(f"{branch} failed, main leads again"), text)
        state, actions = next_up(state, f"fallback: {why}", now)
        # Main first, the report after: the PM reads the reason while main is already starting.
        return state, [*actions, told] if not state.stopping else [told, *actions]
    failures = state.failures + 1
    state = replace(state, failures=failures)
    told_now: list[Action] = []
    if pinned and guilty:
        leads = _LEADS[ladder.lead(state, "").level]
        title = report_titles.watcher(f"{named(guilty)} is pinned, {leads} leads")
        told_now = [Tell(title, f"{text}\n\n{_UNTIL}")]
    elif worth_telling(failures):
        who = runner.level.value if runner else MAIN
        told_now = [Tell(report_titles.watcher(f"{who} failed ({failures} in a row), trying again"), text)]
    seed = runner.boot_id if runner else ""
    # Whoever is next has failed nowhere yet, unless all of them have.
    delay = 0.0 if pinned and not state.safe_mode_failures else delay_seconds(failures, seed)
    if delay == 0.0 or state.stopping or state.request:
        state, actions = next_up(state, f"restart: {why}", now)
        return state, [*actions, *told_now] if not state.stopping else [*told_now, *actions]
    return entered(state, Phase.WAITING, now, deadline=now.monotonic + delay), [Sweep(), *told_now]


_LEADS = {Level.MAIN: MAIN, Level.GOOD: "an earlier version", Level.SAFE: "safe mode"}
"""Who leads in place of what is pinned, in words."""
_UNTIL = (
    "It is not led again until main holds another version, or you ask for it with 'minifram retry'. Main itself is as "
    "it was."
)


def look_again(state: State, now: Instant) -> float | None:
    """When something is due while a runner serves: its exit, or what a long service earns."""
    if state.request or not state.runner:
        return leave_by(state, now)
    since = state.since.monotonic
    of_main = state.runner.level is not Level.BRANCH
    moments = [since + state.patience.probation, since + ladder.STABLE_SECONDS] if of_main else []
    moments = [moment for moment in moments if moment > now.monotonic]
    return min([*moments, *([state.make_way_by] if state.make_way_by is not None else [])], default=None)


def end(state: State, runner: Runner, now: Instant) -> Decision:
    """It is asked to end, and has the grace to do so."""
    deadline = now.monotonic + state.patience.grace
    state = credited(state, now)
    return entered(state, Phase.ENDING, now, deadline=deadline), [AskToEnd(runner)]
