"""A life on main, as a real process between two doors lives it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from infra.shared.conversation import Completion, Request
from tests.cell.cell import Cell, Runner, read, write
from tests.cell.loop.replies import bash, calls, results, says
from tests.cell.loop.waiting import gone, wait_for

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
    run.ask_to_end()
    assert run.ended() == 0


LEAVE = (
    "(setsid bash -c 'echo $BASHPID > logs/left; exec sleep 1000' </dev/null >/dev/null 2>&1 &) ; "
    "while [ ! -s logs/left ]; do sleep 0.01; done"
)
KEEP = "services: [{name: web, command: [bash, -c, 'echo $$ > web.pid; exec sleep 1000'], directory: logs}]\n"


def _pid_in(path: str) -> int:
    wait_for(lambda: os.path.exists(path) and read(path).endswith("\n"), path)
    return int(read(path))


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
