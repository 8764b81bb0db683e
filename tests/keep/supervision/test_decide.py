"""Each edge of the watcher's state table, and what must hold along every path through it."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace

from infra.keep import watcher_file
from infra.keep.active import Level, Runner
from infra.keep.running_code import running_code
from infra.keep.services.backoff import delay_seconds, worth_reporting
from infra.keep.supervision import memory
from infra.keep.supervision.decide import succession
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import (
    Action,
    Asked,
    Died,
    End,
    Event,
    Launch,
    Launched,
    LaunchFailed,
    LaunchReady,
    Leave,
    LookAtMain,
    MainSeen,
    Preparing,
    Probed,
    RetryAsked,
    RollBack,
    RolledBack,
    SealFailed,
    SignalRefused,
    Started,
    StartRunner,
    StopAsked,
    Sweep,
    Tell,
    TimeIsUp,
)
from infra.keep.supervision.decide.state import BOOTSTRAP, Instant, Patience, Phase, State
from infra.keep.supervision.reports import Reports
from infra.keep.watcher_file import BootRecord, Pin, SignalRequest, Version, VersionFailures
from infra.shared.paths import Paths

PATIENCE = Patience(boot=60.0, grace=10.0)


def at(seconds: float) -> Instant:
    return Instant(seconds, 1_700_000_000.0 + seconds)


def a_runner(**overrides: object) -> Runner:
    runner = Runner(boot_id="a" * 32, branch="main", commit="c" * 40, pid=100, started=5.0)
    return replace(runner, **overrides)


def a_state(**overrides: object) -> State:
    runner = a_runner()
    boot = BootRecord(
        id=runner.boot_id, branch="main", commit=runner.commit, reason="start", started_at="t", outcome="success"
    )
    state = State(phase=Phase.RUNNING, since=at(0), patience=PATIENCE, runner=runner, boots=(boot,))
    return replace(state, **overrides)


def a_request(name: str = "bootstrap", target: str = "better", identity: str = "1:1:1") -> SignalRequest:
    return SignalRequest(name=name, target=target, identity=identity)


def kinds(actions: list[Action]) -> list[type]:
    return [type(action) for action in actions]


def test_start_with_nobody_launches_main() -> None:
    """No agent process is found: main is launched after a sweep (seed 001)."""
    state, actions = decide(State(Phase.STARTING, at(0), PATIENCE), Started(), at(0))
    assert actions == [Sweep(), LookAtMain("start")]
    assert state.phase is Phase.STARTING


def test_start_with_a_remembered_request_carries_it_out() -> None:
    """A request that an earlier watcher had claimed is not lost."""
    remembered = State(Phase.STARTING, at(0), PATIENCE, request=a_request())
    assert decide(remembered, Started(), at(0))[1] == [Sweep(), Launch("better", "bootstrap")]


@pytest.mark.parametrize(("served", "phase"), [(True, Phase.RUNNING), (False, Phase.BOOTING)])
def test_start_with_a_living_runner_adopts_it(served: bool, phase: Phase) -> None:
    """A runner that outlived its watcher goes on."""
    state, actions = decide(State(Phase.STARTING, at(0), PATIENCE), Started(a_runner(), served), at(0))
    assert (state.phase, state.runner, actions) == (phase, a_runner(), [])


def test_a_failure_is_on_the_disk_before_the_next_launch(tmp_path: Path) -> None:
    """A watcher killed on the way to that launch remembers whom it blamed; a death that blames nobody may wait."""
    places = Paths(*[str(tmp_path)] * 4)
    log = structlog.get_logger("watcher")
    kept = memory.WatcherMemory(places.watcher_state, Reports(places, log), log)
    before = a_state(runner=a_runner(version="v"))
    assert kept.keep(before, [], at(0), may_wait=True)
    for outage in (True, False):
        state, actions = decide(before, Died("a" * 32, "exit status 1", outage=outage), at(1))
        assert kinds(actions)[:2] == [Sweep, LookAtMain]
        assert kept.keep(state, actions, at(1), may_wait=True) is not outage
    assert memory.load(places.watcher_state)[0].version_failures == (VersionFailures(version="v", count=1),)


def test_adopting_the_requested_branch_settles_the_request() -> None:
    """A watcher killed between launching and noting it does not launch the branch twice."""
    remembered = State(Phase.STARTING, at(0), PATIENCE, request=a_request())
    state, _ = decide(remembered, Started(a_runner(branch="better"), True, launched="better"), at(0))
    assert (state.request, state.handled) == (None, "1:1:1")


def test_a_hand_over_that_waits_outlives_the_watcher() -> None:
    """Main asked for main and the watcher was killed: finding that main still alive is not the answer to it."""
    remembered = State(Phase.STARTING, at(0), PATIENCE, request=a_request(target="main"))
    state, _ = decide(remembered, Started(a_runner(), True), at(0))
    assert (state.request, state.deadline) == (a_request(target="main"), 10.0)


@pytest.mark.parametrize(("prepared", "left"), [("main", a_request()), ("better", None)])
def test_a_preparation_that_lasts_too_long_fails_only_what_waits_for_it(
    prepared: str, left: SignalRequest | None
) -> None:
    """A bootstrap that came while main was being looked at is carried out after all."""
    state, _ = decide(State(Phase.STARTING, at(0), PATIENCE, request=a_request()), Preparing(prepared, 60.0), at(0))
    assert (state.phase, state.deadline) == (Phase.PREPARING, 60.0)
    state, actions = decide(state, TimeIsUp(), at(60))
    assert state.request == left
    assert actions[1] == (Launch("better", "bootstrap") if left else actions[1])
    assert ("better" in str(state.troubles[-1].text)) is False


def test_adopting_counts_the_service_from_its_start() -> None:
    """A runner that had served for long under an earlier watcher has earned its fresh count."""
    remembered = State(Phase.STARTING, at(0), PATIENCE, failures=7)
    state, _ = decide(remembered, Started(a_runner(), True, age=700.0), at(0))
    assert decide(state, Died("a" * 32, "SIGKILL"), at(1))[0].failures == 1


def test_a_long_service_that_ends_with_a_hop_earns_a_fresh_count() -> None:
    """The count is of failures in a row, and a long service is none."""
    state, _ = decide(a_state(failures=7), Asked(a_request()), at(700))
    assert decide(state, Died("a" * 32, "exit status 0"), at(701))[0].failures == 0
    ending, _ = decide(state, TimeIsUp(), at(710))
    assert ending.failures == 0
    short, _ = decide(a_state(failures=7), Asked(a_request()), at(500))
    assert decide(short, Died("a" * 32, "exit status 0"), at(501))[0].failures == 7


def test_a_branch_whose_launch_takes_the_watcher_down_is_dropped_after_three_tries() -> None:
    """A request that is never noted as carried out is not repeated for ever."""
    boots: tuple[BootRecord, ...] = ()
    for number in range(3):
        state = State(Phase.STARTING, at(0), PATIENCE, request=a_request(), boots=boots)
        state, actions = decide(state, Started(), at(0))
        assert actions[:2] == [Sweep(), Launch("better", "bootstrap")]
        spent = BootRecord(id=f"{number:032x}", branch="better", commit="c", reason="bootstrap", started_at="t")
        boots = (*state.boots, spent)
    state = State(Phase.STARTING, at(0), PATIENCE, request=a_request(), boots=boots)
    state, actions = decide(state, Started(), at(0))
    assert kinds(actions) == [Sweep, LookAtMain, Tell]
    assert (state.request, state.handled) == (None, "1:1:1")


def test_a_stop_that_comes_before_the_start_launches_nothing() -> None:
    """SIGTERM while the watcher begins: it leaves at once, or ends the runner it found."""
    state, actions = decide(State(Phase.STARTING, at(0), PATIENCE), StopAsked(), at(0))
    assert actions == []
    assert kinds(decide(state, Started(), at(0))[1]) == [Sweep, Leave]
    assert kinds(decide(state, Started(a_runner(), True), at(0))[1]) == [End]


def launched(state: State, runner: Runner, reason: str, now: Instant) -> State:
    """The attempt is recorded, then made."""
    state, actions = decide(state, LaunchReady(replace(runner, pid=0), reason), now)
    assert actions == [StartRunner(replace(runner, pid=0))]
    state, actions = decide(state, Launched(runner), now)
    assert actions == []
    return state


def test_an_attempt_is_recorded_before_it_is_made() -> None:
    """Its request stays until its process runs; one that cannot be made leaves no trace."""
    starting = a_state(phase=Phase.STARTING, runner=None, boots=(), request=a_request())
    wanted = a_runner(branch="better", pid=0)
    state, _ = decide(starting, LaunchReady(wanted, "bootstrap"), at(1))
    file = memory.to_file(state, (), at(1))
    assert file.code == running_code()
    assert (file.boot_id, file.runner_pid, file.request, len(file.boots)) == ("a" * 32, 0, a_request(), 1)
    assert decide(state, LaunchReady(a_runner(boot_id="b" * 32), "bootstrap"), at(1)) == (state, [])
    assert decide(state, Launched(a_runner(boot_id="b" * 32)), at(1)) == (state, [])
    failed, _ = decide(state, LaunchFailed("better", "no process"), at(1))
    assert (failed.attempt, failed.boots, failed.request) == (None, (), None)


def test_launched_waits_for_success_until_the_boot_deadline() -> None:
    """A launched runner is booting, and spends an attempt that is written down."""
    state = launched(State(Phase.STARTING, at(1), PATIENCE), a_runner(), "start", at(1))
    assert (state.phase, state.deadline, state.runner) == (Phase.BOOTING, 61.0, a_runner())
    assert state.boots[-1].outcome == "booting"


def test_success_makes_it_running() -> None:
    """SUCCESS of the current boot makes the runner running; what is due next is the end of its probation."""
    state, actions = decide(a_state(phase=Phase.BOOTING, deadline=60.0), Probed("a" * 32), at(1))
    assert (state.phase, state.deadline, actions) == (Phase.RUNNING, 601.0, [])
    branch = a_state(phase=Phase.BOOTING, deadline=60.0, runner=a_runner(level=Level.BRANCH, branch="better"))
    assert decide(branch, Probed("a" * 32), at(1))[0].deadline is None


@pytest.mark.parametrize("event", [Probed("b" * 32), Died("b" * 32, "exit status 1")])
def test_news_of_another_boot_changes_nothing(event: Event) -> None:
    """A replayed line or a late death is about nobody."""
    state = a_state(phase=Phase.BOOTING)
    assert decide(state, event, at(1)) == (state, [])


def test_boot_deadline_ends_the_runner_politely_then_firmly_then_counts_as_failed() -> None:
    """No SUCCESS in time: TERM, after the grace KILL, then the failure of that branch."""
    state = a_state(phase=Phase.BOOTING, deadline=60.0, runner=a_runner(branch="better"))
    state, actions = decide(state, TimeIsUp(), at(60))
    assert (state.phase, kinds(actions)) == (Phase.ENDING, [End])
    state, actions = decide(state, TimeIsUp(), at(70))
    assert kinds(actions) == [End]
    state, actions = decide(state, Died("a" * 32, "SIGKILL"), at(70.1))
    assert kinds(actions) == [Sweep, LookAtMain, Tell]
    assert isinstance(actions[1], LookAtMain)
    assert "was not healthy within 60 s: it did not write SUCCESS" in actions[1].reason


def test_time_is_not_up_before_the_deadline() -> None:
    """A stale alarm changes nothing."""
    state = a_state(phase=Phase.BOOTING, deadline=60.0)
    assert decide(state, TimeIsUp(), at(59.9)) == (state, [])


def test_a_runner_that_signalled_and_left_is_followed_by_the_branch() -> None:
    """The hop: the signal waits for the runner's exit, then the branch leads; nothing failed."""
    state, actions = decide(a_state(), Asked(a_request()), at(1))
    assert (actions, state.deadline) == ([], 11.0)
    state, actions = decide(state, Died("a" * 32, "exit status 0"), at(2))
    assert actions == [Sweep(), Launch("better", "bootstrap")]
    assert (state.boots[0].outcome, state.failures) == ("left", 0)
    state = launched(state, a_runner(boot_id="b" * 32, branch="better"), "bootstrap", at(3))
    assert (state.request, state.handled) == (None, "1:1:1")


def test_the_same_file_is_never_acted_on_twice() -> None:
    """A claim repeated after a crash has the same identity and changes nothing."""
    state = a_state(handled="1:1:1")
    assert decide(state, Asked(a_request()), at(1)) == (state, [])


def test_a_later_signal_replaces_an_earlier_one_and_a_rollback_is_never_replaced_by_a_bootstrap() -> None:
    """The last wins; rollback beats bootstrap; what was dropped is written down."""
    state, _ = decide(a_state(), Asked(a_request()), at(1))
    state, _ = decide(state, Asked(a_request("rollback", "main~1", "2")), at(2))
    assert state.request == a_request("rollback", "main~1", "2")
    state, _ = decide(state, Asked(a_request("bootstrap", "other", "3")), at(3))
    assert state.request == a_request("rollback", "main~1", "2")
    assert [trouble.text.split(" was dropped")[0] for trouble in state.troubles] == [
        "bootstrap better",
        "bootstrap other",
    ]


def test_a_branch_that_cannot_be_launched_gives_way_to_main_and_is_settled() -> None:
    """A bad target is tried once, told, and main leads."""
    state = a_state(phase=Phase.STARTING, runner=None, request=a_request())
    state, actions = decide(state, LaunchFailed("better", "no clone"), at(1))
    assert kinds(actions) == [Sweep, LookAtMain, Tell]
    assert (state.request, state.handled) == (None, "1:1:1")


@pytest.mark.parametrize("phase", [Phase.BOOTING, Phase.RUNNING])
def test_death_of_main_is_retried_at_once_then_later(phase: Phase) -> None:
    """The first death of main is answered at once, the next ones after 1, 2, 4 s."""
    state, actions = decide(a_state(phase=phase), Died("a" * 32, "SIGKILL"), at(5))
    assert kinds(actions) == [Sweep, LookAtMain, Tell]
    state, actions = decide(a_state(phase=phase, failures=1), Died("a" * 32, "SIGKILL"), at(5))
    assert (state.phase, kinds(actions)) == (Phase.WAITING, [Sweep, Tell])
    assert state.deadline is not None
    assert 6.0 <= state.deadline <= 6.1
    state, actions = decide(state, TimeIsUp(), at(6.2))
    assert kinds(actions) == [Sweep, LookAtMain]


def test_ten_healthy_minutes_earn_a_fresh_count() -> None:
    """A death after 600 s of service counts as the first."""
    state, _ = decide(a_state(failures=7), Died("a" * 32, "SIGKILL"), at(600))
    assert state.failures == 1


def test_a_signal_while_waiting_is_carried_out_at_once() -> None:
    """The delay of a crash loop does not hold up a rollback."""
    waiting = a_state(phase=Phase.WAITING, runner=None, deadline=60.0)
    assert decide(waiting, Asked(a_request("rollback", "main~1")), at(1))[1] == [Sweep(), RollBack("main~1")]


def test_a_rollback_is_followed_by_main_whatever_came_of_it() -> None:
    """Main leads after a rollback, done or refused, and the PM is told."""
    state = a_state(phase=Phase.STARTING, runner=None, request=a_request("rollback", "main~1"))
    for event in (RolledBack("main~1", "d" * 40), RolledBack("main~1", problem="no such commit")):
        after, actions = decide(state, event, at(1))
        assert kinds(actions) == [Sweep, LookAtMain, Tell]
        assert after.request is None


def test_a_refused_signal_is_told() -> None:
    """The PM reads what was wrong with it; the runner is not touched."""
    state, actions = decide(a_state(), SignalRefused("it is empty"), at(1))
    assert kinds(actions) == [Tell]
    assert state.phase is Phase.RUNNING


def test_a_version_that_has_lived_is_not_blamed_for_what_others_do() -> None:
    """Killed from outside again and again it is started after growing delays, and never pinned; its own deaths count,
    and so do those of a version that has not served its probation."""
    good = Version(commit="c" * 40, id="good")
    for known_good, outside, version_failures in (((good,), True, 0), ((good,), False, 1), ((), True, 1)):
        booted = a_state(main=good, known_good=known_good, runner=a_runner(version="good"), failures=2)
        state, _ = decide(booted, Died("a" * 32, "SIGKILL", served=True, outside=outside), at(30))
        assert (state.phase, state.failures, len(state.version_failures)) == (Phase.WAITING, 3, version_failures)
        assert ("the cause may be external" in state.troubles[-1].text) is not version_failures


def test_a_long_service_is_known_when_somebody_ends_it() -> None:
    """Though the moment at which its probation was over has not been looked at yet."""
    state, _ = decide(a_state(runner=a_runner(version="good")), Died("a" * 32, "SIGKILL", outside=True), at(700))
    assert (state.version_failures, [good.id for good in state.known_good]) == ((), ["good"])


def test_who_is_ended_for_a_failure_is_blamed_however_it_ends() -> None:
    """The watcher's own SIGKILL is nobody else's."""
    good = Version(commit="c" * 40, id="good")
    ending = a_state(
        phase=Phase.ENDING, main=good, known_good=(good,), runner=a_runner(version="good"), failed="unwell"
    )
    assert decide(ending, Died("a" * 32, "SIGKILL", outside=True), at(30))[0].version_failures


def test_safe_mode_that_somebody_kills_forgives_no_pin() -> None:
    """Its code is the image's; that it was killed says nothing about what is pinned."""
    safe = a_state(runner=a_runner(level=Level.SAFE))
    assert decide(safe, Died("a" * 32, "SIGKILL", outside=True), at(30))[0].safe_mode_failures == 0
    assert decide(safe, Died("a" * 32, "exit status 1"), at(30))[0].safe_mode_failures == 1


OLD, NEW = (Version(commit=letter * 40, id=f"{letter}-id", body=f"{letter}-body") for letter in "cd")


@pytest.mark.parametrize("level", list(Level))
def test_a_runner_that_does_not_make_way_for_another_main_is_ended(level: Level) -> None:
    """Whatever leads: noticed when main moves, ended after its time, and no version is blamed. The deadline is that of
    the first change, and goes when main is again what the runner was launched for."""
    led = succession.launched_for(a_state(main=OLD), level)
    before = a_state(main=OLD, runner=a_runner(level=level, version=OLD.id, launched_for=led), deadline=600.0)
    state, actions = decide(before, MainSeen(NEW), at(1))
    assert (state.phase, state.make_way_by, state.deadline, actions) == (Phase.RUNNING, 301.0, 301.0, [])
    state, _ = decide(state, MainSeen(Version(commit="e" * 40, id="e-id", body="e-body")), at(100))
    assert decide(state, MainSeen(OLD), at(150))[0].make_way_by is None
    state, actions = decide(state, TimeIsUp(), at(301))
    assert (state.phase, kinds(actions)) == (Phase.ENDING, [End, Tell])
    assert "did not make way for main, now at eeeeeeeeeeee, within 300 s" in str(actions[-1])
    state, actions = decide(state, Died("a" * 32, "SIGKILL"), at(302))
    assert (state.version_failures, state.failures, actions) == ((), 0, [Sweep(), LookAtMain("bootstrap")])


def test_a_main_of_other_words_displaces_only_who_stands_in_for_it() -> None:
    """Another SYSTEM.md is read by whoever leads at the next run; a report is nothing new to anybody."""
    words, report = replace(OLD, commit="e" * 40, id="other words"), replace(OLD, commit="e" * 40)
    for level, main, displaced in (
        (Level.MAIN, words, False),
        (Level.BRANCH, words, False),
        (Level.SAFE, words, True),
        (Level.GOOD, words, True),
        (Level.SAFE, report, False),
        (Level.MAIN, report, False),
    ):
        led = succession.launched_for(a_state(main=OLD), level)
        state = a_state(main=OLD, runner=a_runner(level=level, launched_for=led))
        assert (decide(state, MainSeen(main), at(1))[0].make_way_by is not None) is displaced


def test_who_makes_way_by_itself_is_not_told_of() -> None:
    """And a boot during which main moves has its time from then on, whenever it serves."""
    booting = a_state(phase=Phase.BOOTING, main=OLD, runner=a_runner(launched_for=OLD.body), deadline=60.0)
    state, _ = decide(booting, MainSeen(NEW), at(1))
    assert state.deadline == 60.0
    state, _ = decide(state, Probed("a" * 32), at(2))
    assert state.deadline == 301.0
    state, _ = decide(state, Asked(a_request(target="main")), at(3))
    state, actions = decide(state, Died("a" * 32, "exit status 0"), at(4))
    assert actions == [Sweep(), LookAtMain("bootstrap")]


def test_a_memory_of_before_displaces_nobody() -> None:
    """It does not say what its runner was launched for; the next launch will."""
    text = '{"schema": "minifram.watcher/1", "branch": "main", "commit": "c", "boot_id": "b", "main": {"id": "c-id"}}'
    file = watcher_file.decode(text.encode())
    state = memory.from_file(file, PATIENCE, at(0))
    assert (state.main.body, state.withdrawn, state.make_way_by) == ("", (), None)
    state, _ = decide(state, Started(a_runner(launched_for=file.launched_for), True), at(0))
    assert decide(state, MainSeen(replace(NEW, id="c-id")), at(1))[0].make_way_by is None


def test_a_version_that_the_pm_took_back_does_not_stand_in_for_main() -> None:
    """Not until the PM says retry, and then it does; one that stands in when it is taken back makes way."""
    older, bad = Version(commit="e" * 40, id="older"), Version(commit="f" * 40, id="bad")
    pin = Pin(version=bad.id, commit=bad.commit, branch="main", why="it died", at="t")
    looked = a_state(phase=Phase.STARTING, runner=None, main=bad, known_good=(OLD, older), pins=(pin,))
    for withdrawn, level, commit in (
        ((), Level.GOOD, OLD.commit),
        ((OLD.id,), Level.GOOD, older.commit),
        ((older.id, OLD.id), Level.SAFE, bad.commit),
    ):
        state, actions = decide(looked, MainSeen(bad, "start", withdrawn), at(1))
        assert [(each.level, each.commit) for each in actions if isinstance(each, Launch)] == [(level, commit)]
    state, _ = decide(replace(state, phase=Phase.WAITING), RetryAsked(), at(2))
    again = replace(state, phase=Phase.STARTING, pins=(pin,))
    state, actions = decide(again, MainSeen(bad, "start", (older.id, OLD.id)), at(3))
    assert [each.commit for each in actions if isinstance(each, Launch)] == [OLD.commit]
    given_back, _ = decide(state, MainSeen(bad, withdrawn=()), at(4))
    assert not succession.is_withdrawn(replace(given_back, withdrawn=(OLD.id,)), older.id)
    assert succession.is_withdrawn(decide(given_back, MainSeen(bad, withdrawn=(OLD.id,)), at(5))[0], OLD.id)
    runner = a_runner(level=Level.GOOD, version=OLD.id, launched_for=bad.id)
    stands_in = a_state(main=bad, known_good=(OLD, older), pins=(pin,), runner=runner)
    assert decide(stands_in, MainSeen(bad, withdrawn=(OLD.id,)), at(1))[0].make_way_by == 301.0
    assert decide(stands_in, MainSeen(bad, withdrawn=None), at(1))[0].make_way_by is None


def test_a_pin_of_main_ends_when_main_holds_another_version() -> None:
    """A version that main is given again is tried again. What is pinned of versions that could stand in
    stays."""
    pins = tuple(
        Pin(version=id, commit="c", branch=on, why="it died", at="t")
        for id, on in ((OLD.id, "main"), ("stand-in", "main"), ("branch-1", "better"))
    )
    before = a_state(main=OLD, pins=pins, known_good=(Version(commit="e" * 40, id="stand-in"),))
    moved, _ = decide(before, MainSeen(NEW), at(1))
    assert [pin.version for pin in moved.pins] == ["stand-in"]
    assert decide(before, MainSeen(replace(OLD, commit="e" * 40)), at(1))[0].pins == pins
    assert decide(moved, MainSeen(before.known_good[0]), at(2))[0].pins == ()


def test_safe_mode_is_called_safe_mode() -> None:
    """Where nothing else is left, and when it fails itself."""
    bad = Version(commit="c" * 40, id="bad")
    booting = a_state(phase=Phase.BOOTING, main=bad, runner=a_runner(version="bad"), boots=())
    state = replace(booting, version_failures=(VersionFailures(version="bad", count=1),))
    _, actions = decide(state, Died("a" * 32, "exit status 1"), at(1))
    assert "is pinned, safe mode is active" in str(actions[-1])
    _, actions = decide(replace(booting, runner=a_runner(level=Level.SAFE)), Died("a" * 32, "exit status 1"), at(1))
    assert "safe mode failed (1 in a row)" in str(actions[-1])
    assert "safe mode (in place of main@cccccccccccc) ended before SUCCESS" in str(actions[-1])


def test_a_later_signal_ends_a_preparation() -> None:
    """The later one wins, whatever is being prepared; the same branch once more changes nothing, so that a rehearsal
    cannot keep itself from ending."""
    preparing = a_state(phase=Phase.PREPARING, runner=None, preparing="better", request=a_request(), deadline=60.0)
    state, actions = decide(preparing, Asked(a_request(target="best", identity="2:2:2")), at(1))
    assert (state.request, actions) == (
        a_request(target="best", identity="2:2:2"),
        [Sweep(), Launch("best", BOOTSTRAP)],
    )
    assert "bootstrap better was dropped: bootstrap best came after it" in state.troubles[-1].text
    state, actions = decide(preparing, Asked(a_request("rollback", "main~1", "2:2:2")), at(1))
    assert actions == [Sweep(), RollBack("main~1")]
    state, actions = decide(preparing, Asked(a_request(identity="2:2:2")), at(1))
    assert (state.phase, state.request, actions) == (Phase.PREPARING, a_request(), [])


def test_rehearsals_that_signal_for_each_other_lead_nowhere() -> None:
    """Each that is broken off counts as a hop, so that main leads again."""
    state = a_state(phase=Phase.STARTING, runner=None, request=a_request(target="one", identity="0"))
    actions: list[Action] = []
    for number in range(1, 20):
        name, other = ("one", "two") if number % 2 else ("two", "one")
        state, _ = decide(state, Preparing(name, 60.0), at(number))
        state, actions = decide(state, Asked(a_request(target=other, identity=str(number))), at(number))
        if kinds(actions) == [Sweep, LookAtMain, Tell]:
            break
    assert "hopped too often" in str(actions[-1])
    assert number == 2 * PATIENCE.hops


def test_leaving_for_a_branch_that_has_no_clone_is_no_version_s_fault() -> None:
    """The signal was refused, and whoever wrote it left all the same: a delay, and no pin; a crash is a crash."""
    state, actions = decide(a_state(), SignalRefused("there is no clone", "1", may_leave=True), at(1))
    assert (state.phase, kinds(actions)) == (Phase.RUNNING, [Tell])
    young = replace(state, runner=a_runner(version="young"))
    left, _ = decide(young, Died("a" * 32, "exit status 0", outside=True), at(2))
    assert (left.version_failures, left.failures) == ((), 1)
    assert decide(young, Died("a" * 32, "exit status 1"), at(2))[0].version_failures


def test_stop_ends_the_runner_then_the_watcher() -> None:
    """An orderly stop: TERM, death, sweep, leave; a pending request stays for the next start."""
    state, actions = decide(a_state(request=a_request()), StopAsked(), at(1))
    assert kinds(actions) == [End]
    state, actions = decide(state, Died("a" * 32, "exit status 0"), at(2))
    assert (state.phase, kinds(actions)) == (Phase.STOPPED, [Sweep, Leave])
    assert (state.request, state.boots[0].outcome) == (a_request(), "left")


def test_a_broken_seal_ends_everything_and_says_why() -> None:
    """The runner goes first, the PM is told, and nothing is launched afterwards."""
    state, actions = decide(a_state(), SealFailed("the canary was not rejected"), at(1))
    assert kinds(actions) == [End, Tell]
    assert "the canary was not rejected" in str(actions[-1])
    assert decide(state, SealFailed("again"), at(2)) == (state, [])
    state, actions = decide(state, Died("a" * 32, "SIGTERM"), at(3))
    assert (state.phase, kinds(actions)) == (Phase.STOPPED, [Sweep, Leave])
    waiting = a_state(phase=Phase.WAITING, runner=None, deadline=60.0)
    state, actions = decide(waiting, SealFailed("no canary"), at(1))
    assert (state.phase, kinds(actions)) == (Phase.STOPPED, [Sweep, Leave, Tell])


def test_a_runner_that_keeps_the_seal_from_being_proved_is_ended_at_once() -> None:
    """It counts as failed; of another boot, or of one that is being ended for a failure, nothing follows."""
    state, actions = decide(a_state(), SealFailed("no port is left", "a" * 32), at(1))
    assert (state.phase, kinds(actions)) == (Phase.ENDING, [End])
    assert decide(state, SealFailed("no port is left", "a" * 32), at(2)) == (state, [])
    assert decide(a_state(), SealFailed("no port is left", "b" * 32), at(1)) == (a_state(), [])
    state, actions = decide(state, Died("a" * 32, "SIGKILL"), at(3))
    assert (state.phase, kinds(actions)) == (Phase.STARTING, [Sweep, LookAtMain, Tell])
    assert "no port is left" in str(actions[-1])


def test_a_launch_that_the_seal_forbids_is_the_last() -> None:
    """With nothing of the cell's alive the seal was not proved: no failure of the version, and the end."""
    starting = a_state(phase=Phase.STARTING, runner=None)
    state, actions = decide(starting, SealFailed("no canary"), at(1))
    assert kinds(actions) == [Tell]
    state, actions = decide(state, LaunchFailed("better", "the seal does not hold"), at(1))
    assert (state.phase, state.failures, kinds(actions)) == (Phase.STOPPED, 0, [Sweep, Leave])


def test_a_branch_that_leads_again_and_again_for_nothing_is_dropped() -> None:
    """Six hops in ten minutes and main is what it was: the seventh is refused, and told. Another branch, or a main that
    has become another version, may."""
    hops = tuple((float(number), "better", "") for number in range(6))
    ready = a_state(phase=Phase.RUNNING, request=a_request(), hops=hops)
    state, actions = decide(ready, Died("a" * 32, "exit status 0"), at(100))
    assert kinds(actions) == [Sweep, LookAtMain, Tell]
    assert "hopped too often" in str(actions[-1])
    assert (state.request, state.handled) == (None, "1:1:1")
    for allowed in (
        replace(ready, request=a_request(target="other")),
        replace(ready, main=Version(commit="e" * 40, id="new")),
        replace(ready, hops=hops[1:]),
    ):
        assert kinds(decide(allowed, Died("a" * 32, "exit status 0"), at(100))[1]) == [Sweep, Launch]
    assert kinds(decide(ready, Died("a" * 32, "exit status 0"), at(700))[1]) == [Sweep, Launch]
    starting = a_state(phase=Phase.STARTING, runner=None)
    state = launched(starting, a_runner(level=Level.BRANCH), "bootstrap", at(1))
    assert state.hops == ((1.0, "main", ""),)


def test_stop_ends_a_row_of_failures() -> None:
    """Who stops and starts an agent that keeps failing sees it try at once."""
    state, _ = decide(a_state(failures=7), StopAsked(), at(1))
    state, _ = decide(state, Died("a" * 32, "SIGKILL"), at(2))
    assert (state.phase, state.failures) == (Phase.STOPPED, 0)


def test_delays_grow_to_a_minute_with_a_tenth_of_jitter() -> None:
    """0, 1, 2, 4 … 60 s."""
    assert [delay_seconds(n, "0000") for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 99)] == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert delay_seconds(9, "ffff") == pytest.approx(66.0)
    assert [n for n in range(20) if worth_reporting(n)] == [1, 2, 4, 8, 16]
