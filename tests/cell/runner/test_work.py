"""The work loop on main, as a real runner between two doors lives it."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import time
from typing import Any

import msgspec
import pytest

from infra.cell.page import Page
from infra.cell.runner.work import Next, Work
from infra.shared.conversation import REFUSAL, Completion, Request, ToolUse
from infra.shared.policy import Policy
from infra.shared.repository.git import Git
from infra.shared.requests import Done, Report
from tests.cell.cell import DEADLINE_SECONDS, Cell, Runner, limits, read, write
from tests.cell.doors import Refusal
from tests.cell.loop.replies import Canned, bash, calls, results, says, texts
from tests.cell.loop.waiting import gone, wait_for
from tests.cell.mind.test_skills import PATH, SKILL

pytestmark = pytest.mark.heavy
SAVE = "git commit -qam 'a change' && git push -q origin main"


def asleep(cell: Cell, **boot: Any) -> Runner:
    """A runner on main that has nothing to do."""
    run = cell.start(cell.boot(**boot))
    run.sleeps()
    return run


def test_a_directive_is_noticed_at_once_done_reported_and_ticked(cell: Cell) -> None:
    """Within 2 s of the push, on a clock that ticks every 10 minutes; then there is nothing more to say."""
    run = asleep(cell)
    seen: list[float] = []

    def begin(request: Request) -> Completion:
        seen.append(time.monotonic())
        return calls(bash(f"echo ${{MINIFRAM_BOOT:-none}}; echo more >> src/notes.md; {SAVE}"))

    cell.model.replies += [begin, says("It is done.")]
    cell.tell("do it")
    told_at = time.monotonic()

    wait_for(lambda: cell.reported("It is done."), "the report")
    assert seen[0] - told_at < 2
    assert cell.open() == []
    assert cell.bare("show", "main:src/notes.md") == "a note\nmore"
    assert results(cell.model.requests[1])[0].content.startswith("none\n"), "what makes a runner is not handed on"
    cell.pm_changes({"src/other.md": "of the PM's\n"}, "another push")
    wait_for(lambda: os.path.exists(f"{cell.checkout}/src/other.md"), "the checkout follows main")
    assert len(cell.model.requests) == 2, "without a directive there is no model call"
    run.ask_to_end()
    assert run.ended() == 0


def test_what_was_open_before_the_start_is_done_at_the_start(cell: Cell) -> None:
    """A runner looks at its page before it sleeps."""
    cell.tell("do it")
    cell.model.replies.append(says("Done."))

    asleep(cell)

    assert cell.reported("done: do it")


def test_the_clock_wakes_when_the_door_does_not(cell: Cell) -> None:
    """A door that says nothing is no reason to miss a directive: the grid of the clock is kept."""
    run = asleep(cell, limits=limits(work_seconds=0.5))
    cell.close_git_door()
    cell.open_git_door(poll_seconds=3600)
    cell.model.replies.append(says("Done."))

    cell.tell("do it")

    wait_for(lambda: cell.reported("done: do it"), "the report")
    assert run.process.poll() is None


def test_steering_reaches_a_unit_that_runs(cell: Cell) -> None:
    """The PM adds to the page; the model reads it with its next results, and both directives are ticked."""
    cell.tell("first thing")
    steered: list[str] = []

    def begin(request: Request) -> Completion:
        cell.tell("second thing")
        return calls(bash("true"))

    def until_told(request: Request) -> Completion:
        steered.extend(texts(request))
        return says("Both done.") if steered else calls(bash("sleep 0.01"))

    cell.model.replies.append(begin)
    cell.model.at_last = until_told
    cell.start(cell.boot(limits=limits(run_steps=2000)))

    wait_for(lambda: cell.reported("Both done."), "the report")
    assert "second thing" in steered[0]
    assert cell.open() == []
    assert len(cell.reports()) == 1


@pytest.mark.fault("F74")
def test_what_only_the_pm_can_mend_is_told_at_once_and_tried_at_long_intervals(cell: Cell) -> None:
    """Told once, with what to do; when it is mended all goes on as if nothing had been."""
    failure = Refusal("authentication", "the key is wrong")
    at: list[float] = []

    def fails(request: Request) -> Refusal:
        at.append(time.monotonic())
        return failure

    cell.model.replies += [fails, fails, fails, says("Done at last.")]
    cell.tell("do it")

    run = asleep(cell, limits=limits(work_seconds=0.2))

    wait_for(lambda: cell.reported("Done at last."), "the report")
    told, done = cell.reports()
    assert "stopped (model authentication): do it" in told
    assert "the key is wrong" in told
    assert "set a valid one" in told
    assert "done: do it" in done
    assert run.log().count('"run.finished"') == 4
    assert min(later - before for before, later in itertools.pairwise(at)) >= 6 * 0.2


def _waits(run: Runner) -> bool:
    return '"waiting"' in run.doing()


@pytest.mark.parametrize("how", ["another directive", "taken back", "new code", "killed", "asked to end"])
def test_while_a_run_waits_for_its_model_nothing_is_missed(cell: Cell, how: str) -> None:
    """A directive more is told when the model is back; one that was taken back, and new code, end the wait; whoever
    comes next goes on with the same conversation."""
    cell.model.replies += [calls(bash("echo once >> logs/did; cat logs/did", id="1"))]
    cell.model.at_last = Refusal("rate_limited", "busy", 2.0 if how == "another directive" else 300.0)
    cell.tell("do it")
    run = cell.start(cell.boot(limits=limits(run_seconds=600)))
    wait_for(functools.partial(_waits, run), "it waits")
    assert "rate_limited: busy" in run.doing()

    def answer(request: Request) -> Completion:
        return says(f"{len(request.messages)} messages; {' '.join(texts(request))}")

    cell.model.at_last = answer
    match how:
        case "another directive":
            cell.tell("and this")
            wait_for(lambda: "run.directives_added" in run.log() or cell.reported("messages"), "it is told")
        case "taken back":
            cell.pm_edits(lambda page: page.replace("do it", "do something else"), "another thing")
            wait_for(lambda: cell.reported("3 messages"), "another run")
        case "new code":
            cell.pm_changes({"infra/cell/new.py": "NEW = 1\n"}, "new code")
            assert run.ended() == 0
            assert cell.signal() == "main"
        case "killed":
            run.process.kill()
            run.ended()
        case "asked to end":
            run.ask_to_end()
            assert run.ended() == 0
    if how in ("new code", "killed", "asked to end"):
        Git(cell.checkout)("pull", "--quiet")
        cell.start(cell.boot())
    if how != "taken back":
        wait_for(lambda: cell.reported("5 messages"), "the report of the same conversation")
    wait_for(lambda: cell.open() == [], "all is done")
    assert read(f"{cell.checkout}/logs/did") == "once\n"


LEAVE = (
    "(setsid bash -c 'echo $BASHPID > logs/left; exec sleep 1000' </dev/null >/dev/null 2>&1 &) ; "
    "while [ ! -s logs/left ]; do sleep 0.01; done"
)
KEEP = "services: [{name: web, command: [bash, -c, 'echo $$ > web.pid; exec sleep 1000'], directory: logs}]\n"


def _pid_in(path: str) -> int:
    wait_for(lambda: os.path.exists(path) and read(path).endswith("\n"), path)
    return int(read(path))


def test_what_an_act_left_that_ran_out_of_time_ends_with_the_act(cell: Cell) -> None:
    """However it got away; what an act before it left runs until the run ends."""
    seen: list[tuple[bool, bool]] = []

    def look(request: Request) -> Completion:
        assert "ended after 2 s" in results(request)[0].content
        earlier, left = (_pid_in(f"{cell.checkout}/logs/{name}") for name in ("earlier", "left"))
        seen.append((gone(earlier), gone(left)))
        return says("Looked.")

    before = calls(bash(LEAVE.replace("logs/left", "logs/earlier"), id="1"))
    cell.model.replies += [before, calls(bash(f"{LEAVE}; sleep 1000", id="2", timeout=2.0)), look]
    cell.tell("leave something")
    cell.start(cell.boot())
    wait_for(lambda: cell.reported("Looked."), "the report")
    assert seen == [(False, True)]


def test_a_tool_of_its_own_that_hangs_ends_neither_run_nor_runner(cell: Cell) -> None:
    """Its time ends it, and the run continues."""
    path = "infra/cell/tools/files.py"
    cell.changes_code(path, "        entry = os.path.join(checkout, given.path)\n", "        signal.pause()\n")
    cell.changes_code(path, "import os\n", "import os\nimport signal\n")
    cell.changes_code(path, "TIMEOUT_MS = 60_000", "TIMEOUT_MS = 1000")
    answers: list[str] = []

    def look(request: Request) -> Completion:
        answers.append(results(request)[0].content)
        return says("Deleted nothing.")

    cell.model.replies += [calls(ToolUse("1", "delete_file", {"path": "x"})), look]
    cell.tell("delete something")
    cell.start(cell.boot())
    wait_for(lambda: cell.reported("Deleted nothing."), "the report")
    assert "it had not ended after 1 s" in answers[0]


def test_what_a_run_left_running_ends_with_it_and_what_it_declared_stays(cell: Cell) -> None:
    """However it got away. The declared service outlives runs, is shown, and ends with the runner."""
    write(f"{cell.code}/services.yaml", KEEP)
    cell.model.replies += [calls(bash(LEAVE, id="1")), says("Left.")]
    cell.tell("leave something")
    run = cell.start(cell.boot())
    wait_for(lambda: cell.reported("Left."), "the report")
    left, kept = _pid_in(f"{cell.checkout}/logs/left"), _pid_in(f"{cell.checkout}/logs/web.pid")
    assert gone(left)
    assert not gone(kept)
    wait_for(lambda: "web running" in run.doing(), "it is shown")
    assert "run.leftovers_ended" in run.log()

    asked: list[str] = []

    def again(request: Request) -> Completion:
        asked.append(results(request)[0].content)
        return says("Still there.")

    cell.model.replies.append(again)
    cell.tell("and now?")
    wait_for(lambda: cell.reported("Still there."), "the next run")
    assert "- services: web running" in asked[0]
    assert not gone(kept)
    run.ask_to_end()
    assert run.ended() == 0
    assert gone(kept)

    os.unlink(f"{cell.checkout}/logs/web.pid")
    cell.start(cell.boot())
    assert _pid_in(f"{cell.checkout}/logs/web.pid") != kept


def test_what_a_service_left_ends_though_nothing_is_run(cell: Cell) -> None:
    """One that goes into the background and is started again would leave a process each time."""
    leave = "setsid sleep 1000 & echo $! >> logs/daemons"
    write(f"{cell.code}/services.yaml", f"services: [{{name: web, command: [bash, -c, '{leave}']}}]\n")
    cell.start(cell.boot(limits=limits(work_seconds=0.2)))
    daemons = f"{cell.checkout}/logs/daemons"
    wait_for(lambda: os.path.exists(daemons) and len(read(daemons).splitlines()) > 1, "it was started twice")
    wait_for(lambda: all(gone(int(pid)) for pid in read(daemons).splitlines()), "what it left is ended")


@pytest.mark.parametrize("wrong", ["a\0b", "\ud800", "x" * 200_000])
def test_nothing_in_the_agents_own_state_ends_its_runners(cell: Cell, wrong: str) -> None:
    """Each of them would meet it again."""
    cell.context().state.change(awaiting="", awaiting_at=wrong)
    cell.model.replies.append(says("It is done."))
    cell.tell("do it")
    run = cell.start(cell.boot())
    wait_for(lambda: cell.reported("It is done.") or run.process.poll() is not None, "the report")
    assert run.process.poll() is None, run.log()


def test_a_file_of_services_that_cannot_be_used_is_told(cell: Cell) -> None:
    """To the PM in a report, once, also by the next runner; and to the model."""
    write(f"{cell.code}/services.yaml", "services: web\n")
    cell.model.replies += [says("I see.")]
    cell.tell("keep a server")
    for _ in range(2):
        run = cell.start(cell.boot())
        wait_for(lambda: cell.reported("services.yaml cannot be used"), "the report")
        wait_for(lambda: cell.reported("I see."), "the run")
        run.sleeps()
        assert "$.services" in run.doing()
        run.ask_to_end()
        assert run.ended() == 0
    assert "- services: services.yaml: " in str(cell.model.requests[0])
    assert len([report for report in cell.reports() if "$.services" in report]) == 1


def test_doors_that_were_away_and_are_back_are_a_reason_to_try_again(cell: Cell) -> None:
    """A watcher died with its doors, and another is up: nobody waits for the clock of ten minutes."""
    cell.model.at_last = Refusal("unavailable", "nobody is there")  # however often a busy machine asks
    run = asleep(cell, limits=limits(run_seconds=1.0))  # so that the run does not wait for them itself
    cell.tell("do it")
    wait_for(lambda: "run.finished" in run.log(), "the run that gives up")
    run.sleeps()
    cell.model.replies.append(says("Done after all."))
    assert not cell.reported("Done after all.")

    cell.close_git_door()
    cell.open_git_door()

    wait_for(lambda: cell.reported("Done after all."), "the report")


def _more_than(things: list[Request], count: int) -> bool:
    return len(things) > count


@pytest.mark.fault("F74", "F79")
def test_an_exhausted_budget_is_told_once_a_day(cell: Cell) -> None:
    """Also by runners that were started after one another."""
    cell.model.at_last = Refusal("budget_exhausted", "10 of 10 dollars are spent")
    cell.tell("do it")

    for _ in range(2):
        before = len(cell.model.requests)
        run = asleep(cell, limits=limits(work_seconds=0.1))
        asked_again = functools.partial(_more_than, cell.model.requests, before + 1)
        wait_for(asked_again, "it is tried again")
        run.ask_to_end()
        assert run.ended() == 0

    [report] = cell.reports()
    assert "stopped (model budget_exhausted on " in report
    assert "budget.daily_usd" in report
    assert cell.open() == ["do it"]


def _has_looked(run: Runner, cell: Cell) -> bool:
    """At main as it is now, woken for that or not, and sleeps again."""
    return f'"after": "{cell.main()}"' in run.log() and '"sleeping"' in run.doing()


@pytest.mark.fault("F76")
def test_a_unit_that_was_cut_short_is_tried_again_for_the_pm_alone(cell: Cell) -> None:
    """Whatever the PM pushes may be what it waits for; its own report is not."""
    cell.model.replies += [says("I need src/other.md.", REFUSAL)]
    cell.tell("do it")
    run = asleep(cell)
    wait_for(lambda: cell.reported("stopped (refusal)"), "the report")
    wait_for(lambda: _has_looked(run, cell), "it has looked at its own report")
    assert len(cell.model.requests) == 1

    cell.model.replies += [says("No.", REFUSAL), says("Now I will.")]
    cell.pm_changes({"src/other.md": "not a directive\n"}, "another push")
    wait_for(lambda: len(cell.reports()) == 2, "the second report")
    wait_for(lambda: _has_looked(run, cell), "it has looked at that as well")
    assert len(cell.model.requests) == 2

    cell.tell("please")

    wait_for(lambda: cell.reported("Now I will."), "the report")
    assert cell.open() == []


def test_an_approval_that_is_waited_for_does_not_keep_other_news_out(cell: Cell) -> None:
    """The PM may push what makes the call needless."""
    value = cell.boot(policy=Policy("ask", "deny", ()))
    cell.model.replies += [calls(bash("true")), says("I wait.")]
    cell.tell("do it")
    run = cell.start(value)
    wait_for(lambda: cell.reported("awaiting_approval"), "the report")
    wait_for(lambda: _has_looked(run, cell), "it has looked at its own reports")
    assert len(cell.model.requests) == 2
    cell.model.replies += [says("It is there.")]

    cell.pm_changes({"src/other.md": "what it needs\n"}, "another push")

    wait_for(lambda: cell.reported("It is there."), "the report")


@pytest.mark.parametrize("pushed", [True, False])
def test_what_the_pm_pushes_while_no_runner_lives_is_news_to_the_next(cell: Cell, pushed: bool) -> None:
    """A standstill outlives the runner, and so does where main was then; its own reports are no news to the next."""
    value = cell.boot(policy=Policy("ask", "deny", ()))
    cell.model.replies += [calls(bash("true")), says("I wait."), says("It is there.")]
    cell.tell("do it")
    run = cell.start(value)
    wait_for(lambda: cell.reported("awaiting_approval") and _has_looked(run, cell), "it waits")
    run.ask_to_end()
    assert run.ended() == 0
    if pushed:
        cell.pm_changes({"src/other.md": "what it needs\n"}, "another push")

    cell.start(msgspec.structs.replace(value, id="b" * 32)).sleeps()

    assert cell.reported("It is there.") is pushed


def test_a_raised_budget_is_taken_up_by_the_restart_that_it_takes(cell: Cell) -> None:
    """Not at the next tick: the runner that starts asks at once."""
    cell.model.replies += [Refusal("budget_exhausted", "10 of 10 dollars are spent")]
    cell.tell("do it")
    run = asleep(cell)
    wait_for(lambda: cell.reported("restart the agent: it goes on at once"), "what to do")
    run.ask_to_end()
    assert run.ended() == 0
    cell.model.replies += [says("Done.")]

    asleep(cell)

    wait_for(lambda: cell.reported("done: do it"), "the report")


def test_reports_from_safe_mode_say_so(cell: Cell) -> None:
    """To the PM, and to the model: nothing of main's runs, though its clone is what they name."""
    value = cell.boot(is_safe_mode=True)
    asked: list[str] = []

    def answer(request: Request) -> Completion:
        asked.append(results(request)[0].content)
        return says("Done.")

    cell.model.replies.append(answer)
    cell.tell("do it")
    cell.start(msgspec.structs.replace(value, instead_of=value.commit))
    told = f"This is safe mode: the PM's own copy of the program runs, in place of main at {value.commit[:12]}."
    wait_for(lambda: cell.reported(told), "the report")
    assert "safe mode, the PM's own copy of the program, runs in its place" in asked[0]


def test_what_is_told_during_the_last_answer_is_not_ticked_with_it(cell: Cell) -> None:
    """It was not in what that answer answers: it is open, and is told and answered in a run of its own. The same when
    it came with the results of the last step that there was."""
    answered: list[list[str]] = []

    def last_answer(request: Request) -> Completion:
        cell.tell("second thing")
        return says("First done.")

    def at_last(request: Request) -> Completion:
        answered.append(cell.open())
        return says("Second done.")

    cell.tell("first thing")
    cell.model.replies += [calls(bash("true")), last_answer, at_last]
    asleep(cell)
    wait_for(lambda: cell.reported("Second done."), "both reports")
    assert answered == [["second thing"]]
    assert cell.open() == []


def test_what_is_told_after_the_last_step_stays_open(cell: Cell) -> None:
    """The model was told, perhaps, and could not answer any more; the next run begins with it at once."""

    def last_step(request: Request) -> Completion:
        cell.tell("second thing")
        return calls(bash("true"))

    opened: list[list[str]] = []

    def next_unit(request: Request) -> Completion:
        opened.append(cell.open())
        return says("Both done.")

    cell.tell("first thing")
    cell.model.replies += [last_step, next_unit]
    asleep(cell, limits=limits(run_steps=1))
    wait_for(lambda: cell.reported("Both done."), "the report")
    assert opened == [["first thing", "second thing"]]
    assert cell.reported("stopped (max_steps, before your last push)")


def test_a_page_without_its_sections_is_mended_and_told(cell: Cell) -> None:
    """The agent goes on; the PM reads what was missing."""
    cell.pm_changes({"COMMS.md": "# Ours\n"}, "rearrange")

    asleep(cell)

    assert cell.reported("put back into COMMS.md: ## Directives, ## Reports")
    assert len(cell.reports()) == 1
    assert cell.model.requests == []


def test_code_that_main_has_replaced_makes_way(cell: Cell) -> None:
    """The PM pushed to infra/cell: the runner asks for main and leaves, before it begins anything."""
    run = asleep(cell)
    cell.pm_edits(lambda page: page.replace("## Directives\n", "## Directives\n\n- [ ] do it\n"), "tell")
    cell.model.at_last = says("Done.")
    wait_for(lambda: cell.reported("done"), "the control: a page alone does not make it leave")

    cell.pm_changes({"infra/cell/new.py": "NEW = 1\n", "COMMS.md": cell.page() + "\n"}, "new code")

    assert run.ended() == 0
    assert cell.signal() == "main"
    assert len(cell.model.requests) == 1


@pytest.mark.parametrize("where", ["asleep", "in a model call", "in a command"])
def test_sigterm_ends_it_in_order_wherever_it_is(cell: Cell, where: str) -> None:
    """Exit status 0 within 2 s, `leaving` in the life file, and no command left running."""
    pids: list[int] = []

    def hang(request: Request) -> Completion:
        pids.append(0)
        time.sleep(4)
        return says("Too late.")

    def command(request: Request) -> Completion:
        return calls(bash("echo $$ > logs/pid; sleep 100 & wait"))

    if where == "asleep":
        run = asleep(cell)
    else:
        cell.tell("do it")
        cell.model.replies.append(hang if where == "in a model call" else command)
        run = cell.start(cell.boot())
        pid_file = f"{cell.checkout}/logs/pid"
        wait_for(lambda: pids or (os.path.exists(pid_file) and read(pid_file).strip()), "it is there")
        pids += [int(read(pid_file))] if os.path.exists(pid_file) else []

    asked_at = time.monotonic()
    run.ask_to_end()

    assert run.ended() == 0, run.log()
    assert time.monotonic() - asked_at < 2
    assert json.loads(run.doing())["doing"] == "leaving"
    assert all(gone(pid) for pid in pids if pid)
    assert cell.signal() == ""
    assert cell.reports() == []


def test_a_repository_that_is_away_is_waited_for(cell: Cell) -> None:
    """Nothing ends because of it; when it is back, so is the agent."""
    run = asleep(cell, limits=limits(work_seconds=1.0))
    os.rename(cell.places.remote, f"{cell.places.remote}.away")
    wait_for(lambda: "look.failed" in run.log(), "it has looked in vain")
    os.rename(f"{cell.places.remote}.away", cell.places.remote)
    cell.model.replies.append(says("Done."))

    cell.tell("do it")

    wait_for(lambda: cell.reported("done: do it"), "the report", DEADLINE_SECONDS + 10)


def test_work_that_is_not_committed_stays_where_it_is(cell: Cell) -> None:
    """The checkout is not touched; the model is told how it stands, and works all the same."""
    asleep(cell).ask_to_end()
    write(f"{cell.checkout}/src/notes.md", "half done\n")
    cell.tell("do it")
    cell.model.replies.append(says("Done."))

    run = cell.start(cell.boot())

    wait_for(lambda: cell.reported("done: do it"), "the report")
    assert read(f"{cell.checkout}/src/notes.md") == "half done\n"
    assert "checkout.left" in run.log()
    assert "1 files not committed" in results(cell.model.requests[0])[0].content


def test_bootstrap_ends_the_runner(cell: Cell) -> None:
    """The signal is there before the runner is gone, and its exit says that all is well."""
    cell.branch("improve", {"src/notes.md": "better\n"})
    cell.tell("improve yourself")
    cell.model.replies.append(calls(ToolUse("1", "bootstrap", {"branch": "improve"})))

    run = cell.start(cell.boot())

    assert run.ended() == 0
    assert cell.signal() == "improve"
    assert json.loads(run.doing())["doing"] == "leaving"


def test_a_ruined_clone_is_left_to_the_watcher(cell: Cell) -> None:
    """No waiting helps; the runner ends with an error. What it had to report needs no clone."""
    cell.tell("do it")
    cell.model.replies += [calls(bash("rm -rf .git SYSTEM.md")), says("Oops.")]

    run = cell.start(cell.boot())

    assert run.ended() == 1
    assert "Traceback" in run.log()
    assert cell.reported("Oops.")


def test_an_agent_that_turned_away_from_its_origin_is_turned_back(cell: Cell) -> None:
    """The next start listens to the PM again."""
    Git(cell.checkout)("remote", "set-url", "origin", "/nowhere")
    cell.tell("come back")
    cell.model.replies.append(says("Here I am."))

    cell.start(cell.boot())

    wait_for(lambda: cell.reported("Here I am."), "the report")


class ForgetfulPage(Page):
    """Takes a report and loses it."""

    def report(self, title: str, text: str, ticks: tuple[str, ...] = (), about: tuple[str, ...] = ()) -> bool:
        return True


def _never(report: Report) -> Done:
    raise AssertionError(report)


def test_a_directive_that_stays_open_though_done_is_not_done_for_ever(cell: Cell) -> None:
    """Whatever keeps it open, the same is not begun again at once; at the tick it is."""
    cell.tell("do it")
    model = Canned([says("Done.")] * 5)
    context = cell.context(model)
    forgetful = ForgetfulPage(context.git, context.state, _never, context.log)
    work = Work(context._replace(page=forgetful), cell.wakes(context))

    assert [work.look(ticked=False) for _ in range(3)] == [Next.LOOK_AGAIN, Next.SLEEP, Next.SLEEP]
    assert len(model.requests) == 1
    assert [work.look(ticked=True), work.look(ticked=False)] == [Next.LOOK_AGAIN, Next.SLEEP]
    assert len(model.requests) == 2


def test_the_minds_duties_are_done_in_idle_time_without_a_model(cell: Cell) -> None:
    """Only main's runner, when it has nothing to do; what was done is committed on the branch mind."""
    cell.git_of_mind()
    run = asleep(cell)
    assert cell.bare("log", "-1", "--format=%s", "mind").startswith("maintenance: exploration_reset ")
    assert not cell.model.requests
    run.ask_to_end()
    assert run.ended() == 0


def test_a_run_begins_and_ends_with_the_mind_as_the_branch_has_it(cell: Cell) -> None:
    """The clone is made when it is gone; what the run wrote there is one commit with the run's id."""
    cell.git_of_mind()
    shutil.rmtree(cell.places.mind)
    cell.tell("do it")
    context = cell.context(Canned([calls(bash(f"echo busy > {cell.places.mind}/memory/working.md")), says("Done.")]))

    assert Work(context, cell.wakes(context)).look(ticked=False) is Next.LOOK_AGAIN
    subject, _, state = cell.bare("log", "-1", "--format=%s", "mind").partition(": ")
    assert (subject.split()[0], state) == ("run", "completed")
    assert os.listdir(f"{cell.checkout}/logs/transcripts") == [f"{subject.split()[1]}.jsonl"]
    assert cell.bare("show", "mind:memory/working.md") == "busy"


def test_a_candidate_is_tried_in_idle_time_by_the_runners_own_tools(cell: Cell) -> None:
    """The self-test and the regression check by bash, behind the policy; the review by one call of the model."""
    git = cell.git_of_mind()
    for path in ("boot/identity.md", "boot/invariants.md", "boot/operating_principles.md"):
        write(f"{git.directory}/{path}", f"This is {path}.\n")
    text = SKILL.replace("dependencies:\n  - core/files@1.0.0\n", "").replace("core/", "see core/")
    write(f"{git.directory}/{PATH}", text)
    git("add", "--all")
    git("commit", "--quiet", "--message", "a candidate")
    git("push", "--quiet", "origin", "mind")
    cell.model.replies.append(says('{"verdict": "reject", "reasons": ["it sums nothing"]}'))
    run = asleep(cell, exploration_usd=1.0)
    log = run.log()
    assert log.count('"mind.skill_tried"') == 3, log
    assert all(f'"trial": "{kind}"' in log for kind in ("self_test", "regression", "review"))
    (asked,) = cell.model.requests
    assert (asked.label, "This is boot/invariants.md." in str(asked.messages)) == ("maintenance", True)
    assert '"reject: it sums nothing"' in read(f"{cell.places.events}/{time.strftime('%Y-%m-%d', time.gmtime())}.jsonl")
