"""COMMS.md of main: read by the agent and appended to, and nothing on it is ever lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog

from infra.cell.life import hop
from infra.cell.state import STATE_FILE, Memory, State
from infra.keep.repository.page_text import USUAL
from infra.shared import comms
from infra.shared.branches import version
from infra.shared.repository.git import Git, GitError
from tests.cell.cell import PM, PROJECT, Cell, read, write


def kept(cell: Cell) -> list[dict[str, Any]]:
    """Reports that the state file holds."""
    found: list[dict[str, Any]] = json.loads(read(f"{cell.places.bot}/{STATE_FILE}"))["unsent"]
    return found


def test_a_report_says_what_runs_and_what_it_is_about_and_ticks_that(cell: Cell) -> None:
    """Nothing in the checkout changes."""
    cell.tell("one")
    cell.tell("two")
    page = cell.context().page
    seen = page.look()

    assert page.report("a title", "some text", (seen.open[0].id,))

    assert cell.open() == ["two"]
    [report] = cell.reports()
    assert report.split("\n")[0].endswith(f"Z {version('main', page.commit())} a title")
    assert report.endswith(f"\n\nDirective: {seen.open[0].id}\n\nsome text")
    assert kept(cell) == []
    assert Git(cell.checkout)("status", "--porcelain") == ""


def test_a_report_that_cannot_be_pushed_is_sent_later_and_in_order(cell: Cell) -> None:
    """Over the runner's own end, and its ticks count as done in the meantime."""
    cell.tell("one")
    page = cell.context().page
    [task] = page.look().open
    os.rename(cell.places.remote, f"{cell.places.remote}.away")

    assert not page.report("first", "text", (task.id,))
    assert not page.report("second", "text")
    os.rename(f"{cell.places.remote}.away", cell.places.remote)
    assert cell.reports() == []
    assert len(kept(cell)) == 2

    later = cell.context().page
    assert later.ticks_underway() == {task.id}
    assert later.send()
    assert [report.split()[3] for report in cell.reports()] == ["first", "second"]
    assert cell.open() == []
    assert later.ticks_underway() == set()


REPORT_FOR_EVER = """
import sys
from infra.shared.boot import from_json
from infra.cell.cell import cell_of
from infra.cell.interruption import Interruption
context = cell_of(from_json(sys.argv[1]), sys.argv[2], Interruption())
number = 0
while True:
    number += 1
    context.page.report(f"report {number}.", "text")
    print(number, flush=True)
"""


@pytest.mark.fault("F02")
@pytest.mark.heavy
def test_no_report_is_lost_over_kill_9(cell: Cell) -> None:
    """Killed at random moments while it reports: each report that was begun is on the page once, in order."""
    from infra.shared.boot import to_json

    begun = 0
    for round in range(8):
        words = [sys.executable, "-c", REPORT_FOR_EVER, to_json(cell.boot()), cell.checkout]
        environment = cell.environment() | {"PYTHONPATH": PROJECT}
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2):
                begun += bool(process.stdout.readline())
            try:
                process.wait(0.013 * round)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            begun += len(process.stdout.read().split())
        for lock in Path(cell.checkout, ".git").rglob("*.lock"):
            lock.unlink()  # the watcher does so before a launch
        assert cell.context().page.send()

    headings = [report.split("\n")[0] for report in cell.all_reports()]
    assert len(set(headings)) == len(headings), "none is there twice"
    times = [heading.split()[1] for heading in headings]
    assert times == sorted(times)
    assert begun <= len(headings) <= begun + 8, "at most one report a round was begun and not yet announced"


def test_a_report_that_is_refused_is_logged(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    """It does not hold up the reports behind it, and people can read it."""
    page = cell.context().page

    assert page.report("", "of nothing")
    assert page.report("second", "it is fine")

    assert [report.split("\n")[-1] for report in cell.reports()] == ["it is fine"]
    assert '"text": "of nothing"' in capfd.readouterr().err
    assert kept(cell) == []


def test_a_report_that_grows_by_its_marks_is_kept_for_the_next_runner(cell: Cell) -> None:
    """A mark is longer than a short password: a text that is just short enough would be too long behind it."""
    page = cell.context().page
    cell.close_git_door()
    assert not page.report("a title", "postgres://u:pw1@h/d\n" * 760)
    assert "[secret]" in kept(cell)[0]["text"]

    cell.open_git_door()
    assert cell.context().page.send()
    assert len(cell.reports()) == 1


@pytest.mark.parametrize("content", ['{"at": "2026', "[]", '{"unsent": 7}', "\0"])
def test_a_state_that_cannot_be_read_is_set_aside(tmp_path: Path, content: str) -> None:
    """The runner works on without it, and it is kept."""
    path = tmp_path / STATE_FILE
    path.write_text(content)

    assert State(str(tmp_path), structlog.get_logger()).memory == Memory()

    assert Path(f"{path}.bad").read_text() == content
    assert not path.exists()


def test_a_state_that_cannot_be_written_does_not_lose_the_report(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    """It is sent from memory, at once or later, and put on the disk as soon as that is possible."""
    page = cell.context().page
    os.makedirs(f"{cell.places.bot}/{STATE_FILE}/in-the-way")
    os.rename(cell.places.remote, f"{cell.places.remote}.away")

    assert not page.report("first", "text", ("0a1b2c3d",))
    assert "state.not_written" in capfd.readouterr().err

    os.rename(f"{cell.places.bot}/{STATE_FILE}", f"{cell.places.bot}/elsewhere")
    assert page.ticks_underway() == {"0a1b2c3d"}
    assert not page.send()
    assert len(kept(cell)) == 1
    os.rename(f"{cell.places.remote}.away", cell.places.remote)
    assert page.send()
    assert len(cell.reports()) == 1


def test_a_disk_that_does_not_take_the_signal_is_told(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    write(cell.places.signals, "a file where the directory should be")
    assert not hop.signal_main(cell.context(), "a test")
    assert "signal.not_written" in capfd.readouterr().err


@pytest.mark.fault("F43")
@pytest.mark.heavy
def test_pm_and_agent_writing_at_once_lose_nothing(cell: Cell) -> None:
    """Both write at the same moment, the PM by path: nobody meets a conflict, and each directive and each report is
    there exactly once, on the page or in the archive."""
    rounds = USUAL.keep_reports + 5
    start = threading.Barrier(2)
    clone = Git(f"{cell.places.var}/pm", PM)
    cell.bare("clone", "--quiet", cell.places.remote, clone.directory)

    def tell(text: str) -> None:
        """As a person does it: when somebody else was faster, pull --rebase and push again."""
        clone("pull", "--quiet", "--rebase", "origin", "main")
        write(page := f"{clone.directory}/COMMS.md", comms.add_directive(read(page), text))
        clone("commit", "--quiet", "--all", "--message", f"tell: {text}")
        while True:
            try:
                clone("push", "--quiet", "origin", "HEAD:main")
                return
            except GitError as error:
                if "rejected]" not in error.stderr:
                    raise
                clone("pull", "--quiet", "--rebase", "origin", "main")

    def pm() -> None:
        for number in range(rounds):
            start.wait(60)
            tell(f"directive {number}.")

    with ThreadPoolExecutor() as pool:
        person = pool.submit(pm)
        page = cell.context().page
        for number in range(rounds):
            start.wait(60)
            assert page.report(f"report {number}.", f"text {number}.")
        person.result()

    assert cell.open() == [f"directive {number}." for number in range(rounds)]
    found = [report.split("\n") for report in cell.all_reports()]
    assert [lines[0].split(" ", 3)[3] for lines in found] == [f"report {number}." for number in range(rounds)]
    assert [lines[-1] for lines in found] == [f"text {number}." for number in range(rounds)]
    assert len(cell.reports()) == USUAL.keep_reports
