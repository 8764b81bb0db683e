"""Each edge of the watcher's state table, and what must hold along every path through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog
from msgspec.structs import replace

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
    Leave,
    MainSeen,
    MindDrifted,
    MustEnd,
    NotLaunched,
    Ready,
    RetryAsked,
    RollBack,
    RolledBack,
    Served,
    Start,
    Started,
    StopAsked,
    Tell,
    TimeIsUp,
)
from infra.keep.watcher_file import (
    BootRecord,
    Instant,
    Level,
    Outcome,
    Patience,
    Phase,
    Request,
    Runner,
    State,
    Strikes,
    Version,
)
from infra.shared.boot import ENDED, FAILED

BOOT = "a" * 32
OLD, NEW = Version("c" * 40, "old"), Version("d" * 40, "new")


def at(seconds: float) -> Instant:
    return Instant(seconds, 1_700_000_000.0 + seconds)


def a_runner(**overrides: Any) -> Runner:
    runner = Runner(boot_id=BOOT, branch="main", commit=OLD.commit, pid=100, version=OLD.id, made_for=OLD.id)
    return replace(runner, **overrides)


def a_state(**overrides: Any) -> State:
    """Main serves."""
    boot = BootRecord(
        boot_id=BOOT, branch="main", commit=OLD.commit, reason="start", started_at="t", outcome=Outcome.SUCCESS
    )
    state = State(phase=Phase.RUNNING, since=at(0), main=OLD, runner=a_runner(), boots=(boot,))
    return replace(state, **overrides)


def booting(**overrides: Any) -> State:
    state = a_state(phase=Phase.BOOTING, deadline=60.0)
    return replace(state, **{"boots": (replace(state.boots[0], outcome=Outcome.BOOTING),), **overrides})


def a_request(name: str = "bootstrap", target: str = "better", identity: str = "1:1:1") -> Request:
    return Request(name=name, target=target, identity=identity)


def a_pin(version: Version = OLD, branch: str = "main", count: int = 2, pinned: bool = True) -> Strikes:
    return Strikes(
        version=version.id, commit=version.commit, branch=branch, count=count, pinned=pinned, why="it died", at="t"
    )


def kinds(actions: list[Action]) -> list[type]:
    return [type(action) for action in actions]


def of_branch(name: str = "better", **overrides: Any) -> Runner:
    return a_runner(branch=name, level=Level.BRANCH, version=f"branch-{name}", **overrides)


# A launch.


def test_start_with_a_remembered_request_carries_it_out() -> None:
    """A request that an earlier watcher had claimed is not lost, and who signalled is not blamed."""
    for state in (State(main=OLD, request=a_request()), a_state(request=a_request()), booting(request=a_request())):
        after, actions = decide(state, Started(), at(0))
        assert actions == [Launch("better", Level.BRANCH, "bootstrap", made_for=OLD.id)]
        assert (after.strikes, after.failures, after.runner) == ((), 0, None)
        assert [boot.outcome for boot in after.boots] == [Outcome.LEFT] * len(after.boots)


def test_an_attempt_is_written_down_before_it_is_made() -> None:
    """Its signal is carried out with that, so that a watcher that is killed does not do it twice."""
    starting = a_state(phase=Phase.STARTING, runner=None, boots=(), request=a_request())
    wanted = of_branch(pid=0)
    state, actions = decide(starting, Ready(wanted, "bootstrap"), at(1))
    assert actions == [Start(wanted)]
    assert (state.runner, state.request, state.handled, len(state.boots)) == (wanted, None, "1:1:1", 1)
    assert decide(state, Ready(replace(wanted, boot_id="b" * 32), "bootstrap"), at(1)) == (state, [])
    assert decide(state, Launched("b" * 32, 7), at(1)) == (state, [])
    failed, actions = decide(state, NotLaunched("better", "no process"), at(1))
    assert (kinds(actions), failed.runner, failed.boots[0].outcome) == ([Launch, Tell], None, Outcome.FAILED)
    state, actions = decide(state, Launched(BOOT, 100), at(1))
    assert (state.phase, state.deadline, state.active.pid, actions) == (Phase.BOOTING, 61.0, 100, [])
    assert state.hops == ((1.0, "better", OLD.id),)


@pytest.mark.parametrize("asked", [Asked(a_request("rollback", "main~1", "2")), StopAsked()])
def test_what_is_asked_for_between_the_attempt_and_its_pid_waits(asked: Event) -> None:
    """The process that begins is ended as soon as it is known."""
    state, actions = decide(a_state(phase=Phase.STARTING, runner=a_runner(pid=0)), asked, at(1))
    assert actions == []
    state, actions = decide(state, Launched(BOOT, 7), at(1))
    assert (state.phase, kinds(actions)) == (Phase.ENDING, [End])


@pytest.mark.parametrize("event", [Served("b" * 32), Died("b" * 32, "exit status 1"), MustEnd("b" * 32, "why")])
def test_news_of_another_boot_changes_nothing(event: Event) -> None:
    """A replayed line or a late death is about nobody."""
    assert decide(booting(), event, at(1)) == (booting(), [])


@pytest.mark.fault("F06")
def test_boot_deadline_ends_the_runner_politely_then_firmly_then_counts_as_failed() -> None:
    """No SUCCESS in time: TERM, after the grace KILL, then the failure of that branch."""
    state = booting(runner=of_branch())
    assert decide(state, TimeIsUp(), at(59.9)) == (state, [])
    state, actions = decide(state, TimeIsUp(), at(60))
    assert (state.phase, actions) == (Phase.ENDING, [End(of_branch())])
    state, actions = decide(state, TimeIsUp(), at(70))
    assert actions == [End(of_branch(), firmly=True)]
    state, actions = decide(state, Died(BOOT, "SIGKILL"), at(70.1))
    assert kinds(actions) == [Launch, Tell]
    assert "did not write SUCCESS within 60 s" in str(actions[0])


# Signals.


def test_the_same_file_is_never_acted_on_twice() -> None:
    """A claim repeated after a crash has the same identity and changes nothing."""
    for state in (a_state(handled="1:1:1"), a_state(request=a_request())):
        assert decide(state, Asked(a_request()), at(1)) == (state, [])


@pytest.mark.fault("F19")
def test_a_later_signal_replaces_an_earlier_one_and_a_rollback_is_never_replaced_by_a_bootstrap() -> None:
    """The last wins; rollback beats bootstrap; what was dropped is written down."""
    state, _ = decide(a_state(), Asked(a_request()), at(1))
    state, _ = decide(state, Asked(a_request("rollback", "main~1", "2")), at(2))
    state, _ = decide(state, Asked(a_request("bootstrap", "other", "3")), at(3))
    assert state.request == a_request("rollback", "main~1", "2")
    dropped = [trouble.text.split(" was dropped")[0] for trouble in state.troubles]
    assert dropped == ["bootstrap better", "bootstrap other"]


def test_a_later_signal_takes_the_place_of_a_launch_under_way() -> None:
    """Whatever is being prepared; the same branch once more changes nothing, so that a rehearsal cannot keep itself
    from ending."""
    starting = a_state(phase=Phase.STARTING, runner=None, request=a_request())
    state, actions = decide(starting, Asked(a_request(target="best", identity="2")), at(1))
    assert actions == [Launch("best", Level.BRANCH, "bootstrap", made_for=OLD.id)]
    assert decide(starting, Asked(a_request("rollback", "main~1", "2")), at(1))[1] == [RollBack("main~1")]
    state, actions = decide(starting, Asked(a_request(identity="2")), at(1))
    assert (state.request, actions) == (a_request(), [])


@pytest.mark.fault("F53")
def test_a_rollback_is_followed_by_main_whatever_came_of_it() -> None:
    """In a clone of its own if main is another now; the PM is told."""
    state = a_state(phase=Phase.STARTING, runner=None, request=a_request("rollback", "main~1"))
    state = replace(state, boots=(replace(state.boots[0], version=OLD.id),))
    for event, fresh in ((RolledBack("main~1", "d" * 40), True), (RolledBack("main~1", problem="no commit"), False)):
        after, actions = decide(state, event, at(1))
        assert kinds(actions) == [Launch, Tell]
        assert isinstance(actions[0], Launch)
        assert actions[0].fresh is fresh
        assert (after.request, after.handled) == (None, "1:1:1")


@pytest.mark.fault("F54")
def test_a_branch_that_is_active_again_and_again_for_nothing_is_dropped() -> None:
    """Six hops in ten minutes and main is what it was: the seventh is refused, and told. Another branch, or a main that
    has become another version, may."""
    hops = tuple((float(number), "better", OLD.id) for number in range(6))
    ready = a_state(request=a_request(), hops=hops)
    state, actions = decide(ready, Died(BOOT, "exit status 0"), at(100))
    assert kinds(actions) == [Launch, Tell]
    assert "active 6 times in 10 minutes" in str(actions[-1])
    assert (state.request, state.handled) == (None, "1:1:1")
    for allowed, now in (
        (replace(ready, request=a_request(target="other")), 100),
        (replace(ready, main=NEW), 100),
        (replace(ready, hops=hops[1:]), 100),
        (ready, 700),
    ):
        assert kinds(decide(allowed, Died(BOOT, "exit status 0"), at(now))[1]) == [Launch]


@pytest.mark.fault("F54")
def test_rehearsals_that_signal_for_each_other_lead_nowhere() -> None:
    """Each that is broken off counts as a hop, so that main runs again."""
    state, actions = a_state(phase=Phase.STARTING, runner=None, request=a_request(target="one")), list[Action]()
    for number in range(20):
        other = a_request(target="one" if number % 2 else "two", identity=str(number))
        state, actions = decide(state, Asked(other), at(number))
        if kinds(actions) == [Launch, Tell]:
            break
    assert number == 2 * Patience().hops - 1
    assert state.request is None


# Ends.


@pytest.mark.parametrize("phase", [Phase.BOOTING, Phase.RUNNING])
def test_death_of_main_is_retried_at_once_then_later(phase: Phase) -> None:
    """The first death of main is answered at once, the next ones after 1, 2, 4 s."""
    state, actions = decide(a_state(phase=phase), Died(BOOT, "SIGKILL"), at(5))
    assert kinds(actions) == [Launch, Tell]
    state, actions = decide(a_state(phase=phase, failures=1), Died(BOOT, "SIGKILL"), at(5))
    assert (state.phase, kinds(actions), state.deadline) == (Phase.WAITING, [Tell], 6.0)
    assert kinds(decide(state, TimeIsUp(), at(6.2))[1]) == [Launch]


@pytest.mark.fault("F04")
def test_delays_grow_to_a_minute() -> None:
    """0, 1, 2, 4 … 60 s, for ever."""
    assert [succession.delay(n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 9999)] == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.fault("F01")
def test_ten_healthy_minutes_earn_a_fresh_count() -> None:
    """However they end: by a death, which counts as the first, or by a hop."""
    assert decide(a_state(failures=7), Died(BOOT, "SIGKILL"), at(600))[0].failures == 1
    for served, left in ((700, 0), (500, 7)):
        state, _ = decide(a_state(failures=7), Asked(a_request()), at(served))
        assert decide(state, Died(BOOT, "exit status 0"), at(served + 1))[0].failures == left


@pytest.mark.fault("F51")
def test_a_version_that_has_lived_is_not_blamed_for_what_others_do() -> None:
    """Killed from outside again and again it is started after growing delays, and never pinned; its own deaths count,
    and so do those of a version that has not served its probation. An outage is nobody's fault."""
    for goods, outside, outage, blamed in (
        ((OLD,), True, "", 0),
        ((OLD,), False, "", 1),
        ((), True, "", 1),
        ((), False, "the disk was full", 0),
    ):
        died = Died(BOOT, "SIGKILL", served=True, from_outside=outside, outage=outage)
        state, _ = decide(a_state(goods=goods, failures=2), died, at(30))
        assert (state.phase, state.failures, len(state.strikes)) == (Phase.WAITING, 3, blamed)
    state, _ = decide(a_state(), Died(BOOT, "SIGKILL", from_outside=True), at(700))
    assert (state.strikes, state.goods) == ((), (OLD,)), "it had served its probation by then"


def test_who_is_ended_for_a_failure_is_blamed_however_it_ends() -> None:
    """The watcher's own SIGKILL is nobody else's."""
    ending, actions = decide(a_state(goods=(OLD,)), MustEnd(BOOT, "a limit"), at(1))
    assert kinds(actions) == [End]
    assert decide(ending, Died(BOOT, "SIGKILL", from_outside=True), at(30))[0].strikes


def test_a_version_that_fails_too_often_is_pinned() -> None:
    """A branch at the first failure, main at the second, what has ever served at the third; and what is next runs at
    once."""
    for runner, goods, tries in ((of_branch(), (), 1), (a_runner(), (), 2), (a_runner(), (OLD,), 3)):
        state = State(main=OLD, goods=goods)
        for number in range(tries):
            assert state.pins == ()
            state = replace(state, phase=Phase.BOOTING, runner=runner, since=at(number))
            state, actions = decide(state, Died(BOOT, "exit status 1"), at(number))
        assert [pin.version for pin in state.pins] == [runner.version]
        assert kinds(actions) == [Launch, Tell]


def test_what_runs_when_main_is_pinned() -> None:
    """The newest good version that is not pinned itself, else safe mode; in a clone that is none of another level's."""
    older = Version("e" * 40, "older")
    for strikes, goods, level, version in (
        ((), (OLD, older), Level.MAIN, OLD),
        ((a_pin(),), (OLD, older), Level.GOOD, older),
        ((a_pin(), a_pin(older)), (OLD, older), Level.SAFE, Version(OLD.commit)),
        ((a_pin(count=1, pinned=False),), (), Level.MAIN, OLD),
    ):
        launch = succession.of_main(a_state(runner=None, strikes=strikes, goods=goods), "why")
        assert (launch.level, launch.version, launch.made_for) == (level, version, OLD.id)
        assert launch.fresh is (level is not Level.MAIN)
    branch = replace(a_state().boots[0], level=Level.BRANCH)
    assert succession.of_main(a_state(boots=(branch,)), "").fresh
    failed = replace(a_state().boots[0], outcome=Outcome.FAILED)
    assert not succession.of_main(a_state(boots=(branch, failed)), "").fresh, "once"


def test_safe_mode_that_fails_takes_all_pins_off() -> None:
    """Nothing could run, so the machine is to blame; unless somebody killed it."""
    safe = booting(runner=a_runner(level=Level.SAFE, version=""), strikes=(a_pin(),))
    assert decide(safe, Died(BOOT, "SIGKILL", from_outside=True), at(30))[0].strikes == (a_pin(),)
    state, actions = decide(safe, Died(BOOT, "exit status 1"), at(30))
    assert state.strikes == ()
    assert "safe mode failed (1 in a row)" in str(actions[-1])
    assert "safe mode (in place of main@cccccccccccc) ended before SUCCESS" in str(actions[-1])


def test_six_hours_of_service_forget_failures() -> None:
    """Not an hour: dying every hour is a way to be bad."""
    for served, left in ((5 * 3600.0, 1), (6 * 3600.0, 0)):
        state, _ = decide(a_state(strikes=(a_pin(count=1, pinned=False),), deadline=1.0), TimeIsUp(), at(served))
        assert len(state.strikes) == left


def test_only_what_main_holds_becomes_good() -> None:
    """What the PM took back meanwhile does not come onto the list again."""
    assert decide(a_state(deadline=600.0), TimeIsUp(), at(600))[0].goods == (OLD,)
    assert decide(a_state(deadline=600.0, main=NEW), TimeIsUp(), at(600))[0].goods == ()


# Main.


@pytest.mark.parametrize("level", list(Level))
def test_a_runner_that_does_not_make_way_for_another_main_is_ended(level: Level) -> None:
    """Whatever runs: noticed when main moves, ended after its time, and no version is blamed. The deadline is that of
    the first change, and goes when main is again what the runner was launched for."""
    before = a_state(runner=a_runner(level=level), deadline=600.0)
    state, actions = decide(before, MainSeen(NEW, ()), at(1))
    assert (state.phase, state.make_way_by, state.deadline, actions) == (Phase.RUNNING, 301.0, 301.0, [])
    state, _ = decide(state, MainSeen(Version("e" * 40, "e"), ()), at(100))
    assert decide(state, MainSeen(OLD, ()), at(150))[0].make_way_by is None
    state, actions = decide(state, TimeIsUp(), at(301))
    assert (state.phase, kinds(actions)) == (Phase.ENDING, [End, Tell])
    assert "did not make way for main, now at eeeeeeeeeeee, within 300 s" in str(actions[-1])
    state, actions = decide(state, Died(BOOT, "SIGKILL"), at(302))
    assert (state.strikes, state.failures, kinds(actions)) == ((), 0, [Launch])


def test_a_pin_of_main_ends_when_main_holds_another_version() -> None:
    """A version that main is given again is tried again. What is pinned of versions that could stand in stays, and a
    report moves main and changes nothing."""
    stand_in = Version("e" * 40, "stand-in")
    pins = (a_pin(), a_pin(stand_in), a_pin(Version("f" * 40, "branch-1"), "better"))
    before = a_state(strikes=pins, goods=(stand_in,), failures=3)
    moved, _ = decide(before, MainSeen(NEW, (stand_in,)), at(1))
    assert ([pin.version for pin in moved.pins], moved.failures) == (["stand-in", "branch-1"], 0)
    assert decide(before, MainSeen(replace(OLD, commit="e" * 40), (stand_in,)), at(1))[0].strikes == pins
    assert decide(before, MainSeen(stand_in, (stand_in,)), at(2))[0].pins == pins[2:]
    waiting = replace(before, phase=Phase.WAITING, runner=None)
    assert kinds(decide(waiting, MainSeen(NEW, ()), at(1))[1]) == [Launch]


def test_what_is_newer_than_a_good_version_that_main_holds_again_was_taken_back() -> None:
    """By whatever command or plain git; and what the PM took off the list is not on it any more."""
    older = Version("e" * 40, "older")
    state, _ = decide(a_state(goods=(NEW, OLD, older)), MainSeen(OLD, (NEW, OLD, older)), at(1))
    assert state.goods == (OLD, older)
    assert decide(a_state(goods=(OLD, older)), MainSeen(NEW, (older,)), at(1))[0].goods == (older,)


def test_retry_tries_main_again() -> None:
    """What stands in for it makes way, and a delay is over."""
    pinned = a_state(strikes=(a_pin(),), failures=3, runner=a_runner(level=Level.GOOD))
    state, actions = decide(pinned, RetryAsked(), at(1))
    assert (state.strikes, state.failures, kinds(actions)) == ((), 0, [End])
    _, actions = decide(state, Died(BOOT, "exit status 0"), at(2))
    assert actions == [Launch("main", Level.MAIN, "restart: the PM requested it", OLD, OLD.id)]
    waiting = replace(pinned, phase=Phase.WAITING, runner=None)
    assert kinds(decide(waiting, RetryAsked(), at(1))[1]) == [Launch]
    assert decide(a_state(), RetryAsked(), at(1)) == (a_state(), [])


# A mind that has drifted, where the PM wants safe mode for it.


def test_what_runs_makes_way_for_safe_mode_and_back() -> None:
    """Main or a branch is ended, the next launch is safe mode; when the mind is right, main is next again. Who runs
    already what has to run is left alone."""
    state, actions = decide(a_state(), MindDrifted("identity"), at(1))
    assert (state.phase, kinds(actions)) == (Phase.ENDING, [End])
    state, (launch,) = decide(state, Died(BOOT, "exit status 0"), at(2))
    assert isinstance(launch, Launch)
    assert launch.level is Level.SAFE
    assert launch.reason == "restart: the mind has drifted; the mind has drifted: identity"
    safe = a_state(drifted="identity", runner=a_runner(level=Level.SAFE))
    assert decide(safe, MindDrifted("identity"), at(3)) == (safe, [])
    state, actions = decide(safe, MindDrifted(""), at(4))
    assert kinds(actions) == [End]
    assert succession.of_main(state, "").level is Level.MAIN


def test_no_hop_while_the_mind_has_drifted() -> None:
    """The request is told to be dropped; safe mode is next."""
    state = a_state(runner=None, request=a_request(), drifted="identity")
    state, actions = succession.next_up(state, "", at(1))
    assert kinds(actions) == [Launch, Tell]
    assert "better was not started, safe mode is active" in str(actions[-1])
    assert state.request is None


# The end of the watcher, and its memory.


def test_stop_ends_the_runner_then_the_watcher() -> None:
    """TERM, death, leave; a pending request stays for the next start, a row of failures does not."""
    state, actions = decide(a_state(request=a_request(), failures=7), StopAsked(), at(1))
    assert kinds(actions) == [End]
    state, actions = decide(state, Died(BOOT, "exit status 0"), at(2))
    assert (state.phase, kinds(actions), state.failures) == (Phase.STOPPED, [Leave], 0)
    assert (state.request, state.boots[0].outcome) == (a_request(), Outcome.LEFT)
    assert kinds(decide(State(main=OLD), StopAsked(), at(0))[1]) == [Leave]


def test_a_watcher_begins_with_what_the_last_one_wrote(tmp_path: Path) -> None:
    """But for what was on its clock; and who ran is not forgotten, so that it is known how it ended."""
    path = str(tmp_path / "watcher.json")
    kept = memory.WatcherMemory(path, structlog.get_logger())
    written = a_state(
        request=a_request(), goods=(OLD,), strikes=(a_pin(),), stopping=True, deadline=5.0, make_way_by=9.0
    )
    assert kept.keep(replace(written, hops=((1.0, "better", "x"),)), ())
    found, problem = memory.load(path, Patience(boot=7.0))
    same = replace(written, since=Instant(), deadline=None, make_way_by=None, stopping=False, code=found.code)
    assert (found, problem) == (replace(same, patience=Patience(boot=7.0)), "")
    assert found.code


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Died(BOOT, "exit status 1"), (FAILED, BOOT, OLD.commit, "failed")),
        (Died(BOOT, "exit status 1", served=True), (ENDED, BOOT, OLD.commit, "died")),
        (Served(BOOT), None),
    ],
)
def test_how_each_attempt_ended_stands_in_the_boot_log(event: Event, said: tuple[str, str, str, str] | None) -> None:
    """What a runner does not live to write, or cannot know."""
    after, _ = decide(booting(), event, at(1))
    lines = memory.boot_lines(booting(), event, after, at(1))
    assert [(each.word, each.boot_id, each.commit, each.details["outcome"]) for each in lines] == (
        [said] if said else []
    )


def test_a_refused_launch_stands_in_the_boot_log() -> None:
    """Once, whether or not it was written down as an attempt; an answer to what was not asked does not."""
    starting = a_state(phase=Phase.STARTING, runner=None, boots=())
    for event in (NotLaunched("better", "unfit", of_branch(boot_id="")), NotLaunched("better", "no clone")):
        after, _ = decide(starting, event, at(1))
        (line,) = memory.boot_lines(starting, event, after, at(1))
        assert (line.word, line.branch, line.boot_id) == (FAILED, "better", "0" * 32)
        assert line.commit == (OLD.commit if event.guilty else "-")
    assert memory.boot_lines(a_state(), event, decide(a_state(), event, at(1))[0], at(1)) == []
    attempted, _ = decide(starting, Ready(of_branch(pid=0), "bootstrap"), at(1))
    after, _ = decide(attempted, event, at(1))
    assert [line.boot_id for line in memory.boot_lines(attempted, event, after, at(1))] == [BOOT]
