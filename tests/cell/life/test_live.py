"""A life on main, in the test's own thread."""

from __future__ import annotations

import json
import os
import time

import pytest

from infra.cell.page import request_of
from infra.cell.state import State
from infra.cell.waits import Wait
from infra.cell.work.directives import pm_has_moved
from infra.shared.conversation import REFUSAL, Completion, Request, ToolUse
from infra.shared.exit_codes import Exit
from infra.shared.paths import LIFE_FILE
from infra.shared.repository.git import Git
from infra.shared.signals import FALLBACK
from tests.cell.cell import Cell, limits, read, write
from tests.cell.doors import Refusal
from tests.cell.life.days import AGAIN, TICK, Story, lives, one_day, one_run
from tests.cell.loop.replies import bash, calls, results, says, texts
from tests.cell.mind.test_skills import PATH, SKILL
from tests.cell.minds import PmMind

NO = says("No.", REFUSAL)
SHORT = limits(work_seconds=0.05)


def waits(cell: Cell) -> str:
    return str(json.loads(read(f"{cell.checkout}/{LIFE_FILE}"))["waits"])


def asked(cell: Cell) -> int:
    return len(cell.model.requests)


@pytest.mark.heavy
def test_each_directive_is_a_run_a_report_and_a_tick_of_its_own(cell: Cell) -> None:
    """Also one that joins a run, which is told of it; what was open before the start is done at the start, and with
    nothing open no model is asked."""

    def joins(request: Request) -> Completion:
        cell.tell("third thing")
        return calls(bash("true"))

    def told(request: Request) -> Completion:
        assert "third thing" in texts(request)[0]
        return says("One.")

    cell.tell("first thing")
    cell.tell("second thing")
    cell.model.replies += [joins, told, says("Two."), says("Three.")]
    one_day(cell, lambda: cell.pm_changes({"src/other.md": "of the PM's\n"}, "another push"))

    titles = [report.split(" done: ")[1].split("\n")[0] for report in cell.reports()]
    assert titles == ["first thing", "second thing", "third thing"]
    assert [report.split("\n")[-1] for report in cell.reports()] == ["One.", "Two.", "Three."]
    assert cell.open() == []
    assert asked(cell) == 4
    assert os.path.exists(f"{cell.checkout}/src/other.md"), "the checkout follows main"


@pytest.mark.heavy
@pytest.mark.fault("F76")
def test_a_stopped_run_is_begun_three_times_and_then_waits_for_the_pm(cell: Cell) -> None:
    """A directive that names a ticket, too; neither ticks nor another life begin a fourth, any push of the PM's does.
    Other directives do not wait for it."""

    def answer(request: Request) -> Completion:
        own = results(request)[0].content.partition("## Your work")[2].partition("\n## ")[0]
        return NO if "PROJ-17" in own else says("Done.")

    cell.model.at_last = answer
    cell.tell("Task PROJ-17: do it")
    cell.tell("another thing")

    def story() -> Story:
        assert cell.reported("done: another thing")
        while asked(cell) < 4:
            yield TICK
        yield TICK
        assert "waits for your word" in waits(cell)

    def another_life() -> Story:
        yield TICK
        assert asked(cell) == 4
        cell.pm_changes({"src/other.md": "what it needs\n"}, "another push")
        yield AGAIN
        assert waits(cell) == ""

    lives(cell, story(), limits=SHORT)
    stopped = [report for report in cell.reports() if "stopped (refusal" in report]
    assert [f"This was try {nth} of 3" in report for nth, report in enumerate(stopped, 1)] == [True] * 3
    titles = [f"stopped (refusal, try {nth} of 3): " in report for nth, report in enumerate(stopped, 1)]
    assert titles == [False, True, True]
    cell.model.at_last = says("Now I will.")
    lives(cell, another_life(), limits=SHORT)
    assert cell.reported("Now I will.")


class Killed(State):
    """Of a runner that is killed before it notes what follows."""

    def waits_for(self, key: str, wait: Wait) -> None:
        if wait.why:
            raise InterruptedError
        super().waits_for(key, wait)


def test_a_run_is_not_begun_again_over_a_kill_before_it_is_noted_what_follows(cell: Cell) -> None:
    """The next runner ends it from its record, and its report is on the page once."""
    cell.model.at_last = NO
    cell.tell("do it")
    context = cell.context()
    state = Killed(cell.places.bot, context.log)
    with pytest.raises(InterruptedError):
        one_run(context._replace(state=state, page=context.page._replace(state=state)))
    one_day(cell)
    assert (asked(cell), waits(cell)[:14], len(cell.reports())) == (1, "do it: refusal", 1)


def test_a_run_that_the_pm_has_pushed_in_begins_again_at_once(cell: Cell) -> None:
    """Whatever the clock says."""

    def last_step(request: Request) -> Completion:
        cell.tell("second thing")
        return calls(bash("true"))

    cell.tell("first thing")
    cell.model.replies += [last_step, says("One."), says("Two.")]
    one_day(cell, limits=limits(run_steps=1))
    assert (cell.reported("done: first thing"), cell.open()) == (True, [])


def test_what_the_pm_pushes_while_no_runner_lives_is_news_to_the_next(cell: Cell) -> None:
    """It may be what a run wants that was stopped; neither the runner's own reports nor a start are."""
    cell.model.replies += [NO, says("It is there.")]
    cell.tell("do it")
    one_day(cell)
    assert cell.reported("stopped (refusal): do it")
    one_day(cell)
    assert not cell.reported("It is there.")
    cell.pm_changes({"src/other.md": "what it needs\n"}, "another push")
    one_day(cell)
    assert cell.reported("It is there.")


@pytest.mark.heavy
@pytest.mark.fault("F74", "F79")
def test_what_only_the_pm_can_mend_is_told_once_and_tried_at_each_tick(cell: Cell) -> None:
    """Told once, with what to do; all other work waits with it. A start tries at once: it takes one to mend it."""
    no_key = Refusal("authentication", "the key is wrong")
    cell.model.replies += [no_key, no_key, no_key, says("Done at last."), says("This, too.")]
    cell.tell("do it")
    cell.tell("and this")

    def story() -> Story:
        while cell.open():
            assert "do it: model_unavailable" in waits(cell)
            yield TICK

    for lives_before in range(1, 3):
        one_day(cell)
        assert asked(cell) == lives_before
    lives(cell, story(), limits=SHORT)
    told, *done = cell.reports()
    assert "stopped (model authentication): do it" in told
    assert "the key is wrong" in told
    assert "set a valid one" in told
    assert len(done) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["another directive", "taken back", "new code"])
def test_while_a_run_waits_for_its_model_nothing_is_missed(cell: Cell, how: str) -> None:
    """A directive more is told when the model is back; one that was taken back, and new code, end the wait."""
    cell.model.replies += [calls(bash("echo once >> logs/did", id="1")), Refusal("rate_limited", "busy", 1.0)]
    cell.model.at_last = lambda request: says(f"{len(request.messages)} messages; {' '.join(texts(request))}")
    cell.tell("do it")

    def story() -> Story:
        assert '"waiting"' in read(f"{cell.checkout}/{LIFE_FILE}")
        match how:
            case "another directive":
                cell.tell("and this")
            case "taken back":
                cell.pm_edits(lambda page: page.replace("do it", "do something else"), "another thing")
            case "new code":
                cell.pm_changes({"infra/cell/new.py": "NEW = 1\n"}, "new code")
        while how == "another directive" and not cell.reports():
            yield TICK
        yield AGAIN

    ended, _ = lives(cell, story())
    assert (ended, cell.signal()) == ((Exit.OK, "main") if how == "new code" else (None, ""))
    assert read(f"{cell.checkout}/logs/did") == "once\n"
    if how == "new code":
        Git(cell.checkout)("pull", "--quiet")
        one_day(cell)
    assert cell.open() == []
    assert cell.reported("3 messages" if how == "taken back" else "5 messages")


@pytest.mark.heavy
def test_an_agent_that_asks_for_the_same_hop_again_is_not_begun_without_end(cell: Cell) -> None:
    """What is refused costs nobody but the model's owner anything, so the watcher alone would start it for ever. At the
    end the PM is told, and asked."""
    cell.branch("improve", {"src/notes.md": "better\n"})
    cell.tell("improve yourself")
    cell.model.at_last = calls(ToolUse("1", "bootstrap", {"branch": "improve"}))
    reason, day = f"{FALLBACK}improve was not started", limits(work_seconds=86_400.0)
    ends = [lives(cell, iter(()), reason=reason if life else "start", limits=day)[0] for life in range(5)]
    assert (ends, asked(cell)) == ([Exit.OK] * 3 + [None] * 2, 3)
    assert waits(cell).startswith("improve yourself: a hop that failed, again at")

    while not cell.reported("waits (a hop that failed)"):
        lives(cell, iter([TICK] * 7), reason=reason, limits=SHORT)
    before = asked(cell)
    lives(cell, iter([TICK] * 7), reason=reason, limits=SHORT)
    assert (before, asked(cell)) == (5, 5)
    cell.pm_changes({"src/other.md": "what it needs\n"}, "another push")
    assert lives(cell, iter(()), reason=reason, limits=SHORT)[0] is Exit.OK


REVIEWED = "waits (review of improve): improve yourself"


@pytest.mark.heavy
@pytest.mark.parametrize("decided", ["merged", "rejected"])
def test_work_that_waits_for_a_review_stays_open_until_it_is_decided(cell: Cell, decided: str) -> None:
    """The report says so; other pushes of the PM's do not wake it, and other work goes on."""
    git = cell.branch("improve", {"src/notes.md": "better\n"})
    tip = git("rev-parse", "HEAD")
    cell.tell("improve yourself")
    cell.model.replies += [calls(ToolUse("1", "bootstrap", {"branch": "improve"}))]
    ended, context = lives(cell, iter(()), autonomy="propose")
    assert (ended, cell.signal(), cell.open()) == (Exit.OK, "improve", ["improve yourself"])
    context.keep.report(request_of("improve", tip, "validated: all is well", "Awaiting review."))

    def other_pushes() -> Story:
        assert cell.reported(REVIEWED)
        assert cell.open() == ["improve yourself"]
        cell.tell("another thing")
        yield AGAIN
        assert waits(cell) == "improve yourself: review of improve, waits for your word"
        assert asked(cell) == 3

    cell.model.replies += [says("It awaits your review."), says("Done.")]
    lives(cell, other_pushes(), autonomy="propose")
    assert cell.open() == ["improve yourself"]
    if decided == "merged":
        cell.pm_merges("improve")
        Git(cell.checkout)("pull", "--quiet")
    else:
        cell.bare("update-ref", "-d", "refs/heads/improve")
        cell.tell("Branch improve is rejected")
    cell.model.replies += [says("It is settled.")]
    one_day(cell, autonomy="propose")
    assert cell.reported("done: improve yourself")
    assert cell.open() == []


def test_code_that_main_has_replaced_makes_way(cell: Cell) -> None:
    """Before anything is begun, though there is something to do; a page alone does not make it leave."""

    def story() -> Story:
        cell.tell("do it")
        yield AGAIN
        assert cell.reported("done: do it")
        cell.tell("more")
        cell.pm_changes({"infra/cell/new.py": "NEW = 1\n"}, "new code")
        yield AGAIN

    ended, _ = lives(cell, story())
    assert (ended, cell.signal(), asked(cell)) == (Exit.OK, "main", 1)


def test_a_repository_that_is_away_is_waited_for(cell: Cell) -> None:
    def story() -> Story:
        os.rename(cell.places.remote, f"{cell.places.remote}.away")
        yield AGAIN
        os.rename(f"{cell.places.remote}.away", cell.places.remote)
        cell.tell("do it")
        yield AGAIN

    lives(cell, story())
    assert cell.reported("done: do it")


def test_a_ruined_clone_is_left_to_the_watcher(cell: Cell) -> None:
    """No waiting helps. What it had to report needs no clone."""
    cell.tell("do it")
    cell.model.replies += [calls(bash("rm -rf .git SYSTEM.md")), says("Oops.")]
    with pytest.raises(Exception, match=r"not a git repository|does not exist|No such file"):
        one_day(cell)
    assert cell.reported("Oops.")


def test_work_that_is_not_committed_stays_where_it_is(cell: Cell) -> None:
    """The checkout is not touched; the model is told how it stands, and works all the same."""
    write(f"{cell.checkout}/src/notes.md", "half done\n")
    cell.tell("do it")
    one_day(cell)
    assert cell.reported("done: do it")
    assert read(f"{cell.checkout}/src/notes.md") == "half done\n"
    assert "1 files not committed" in results(cell.model.requests[0])[0].content


def test_an_agent_that_turned_away_from_its_origin_is_turned_back(cell: Cell) -> None:
    Git(cell.checkout)("remote", "set-url", "origin", "/nowhere")
    cell.tell("come back")
    one_day(cell)
    assert cell.reported("done: come back")


def test_reports_from_safe_mode_say_so(cell: Cell) -> None:
    """To the PM, and to the model."""
    cell.tell("do it")
    commit = cell.boot().commit
    one_day(cell, is_safe_mode=True, instead_of=commit)
    assert cell.reported(
        f"This is safe mode: the PM's own copy of the program runs, in place of main at {commit[:12]}."
    )
    told = results(cell.model.requests[0])[0].content
    assert "safe mode, the PM's own copy of the program, runs in its place" in told


@pytest.mark.parametrize("wrong", ["a\0b", "\ud800", "x" * 200_000])
def test_nothing_in_the_agents_own_state_ends_its_runners(cell: Cell, wrong: str) -> None:
    """Each of them would meet it again. What main held before is gone, then."""
    (context := cell.context()).state.change(main=wrong)
    assert pm_has_moved(context.git, State(cell.places.bot, context.log).memory.main, cell.main())


@pytest.mark.heavy
def test_a_candidate_is_tried_in_idle_time_by_the_runners_own_tools(cell: Cell) -> None:
    """The self-test and the regression check by bash, behind the policy; the review by one call of the model."""
    boot = ("boot/identity.md", "boot/invariants.md", "boot/operating_principles.md")
    text = SKILL.replace("dependencies:\n  - core/files@1.0.0\n", "").replace("core/", "see core/")
    PmMind(cell, {path: f"This is {path}.\n" for path in boot} | {PATH: text})
    cell.model.replies.append(says('{"verdict": "reject", "reasons": ["it sums nothing"]}'))
    one_day(cell, exploration_usd=1.0)
    (request,) = cell.model.requests
    assert (request.label, "This is boot/invariants.md." in str(request.messages)) == ("maintenance", True)
    events = read(f"{cell.places.events}/{time.strftime('%Y-%m-%d', time.gmtime())}.jsonl")
    assert all(f'"{kind}"' in events for kind in ("self_test", "regression", "review"))
    assert '"reject: it sums nothing"' in events
