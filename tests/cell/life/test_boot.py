"""A start of the runner, up to SUCCESS or to a failure that says why."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.cell.cell import cell_of
from infra.cell.interruption import Interruption
from infra.keep.sockets import listen
from infra.shared import boot as boot_values
from infra.shared.boot import parse_line
from infra.shared.exit_codes import Exit
from infra.shared.policy import Policy, Rule
from tests.cell.cell import Cell, Runner, limits, read, write


def failed(run: Runner, code: Exit, *words: str) -> None:
    """It ended with this code, and both its boot log and its error log say why."""
    assert run.ended() == code, run.log()
    assert run.words() == ["BOOTSTRAPPING", "FAILED"]
    reason = run.lines()[-1].details["reason"]
    for word in words:
        assert word in reason
    assert reason in run.log()


@pytest.mark.heavy
def test_a_start_is_on_record_from_its_first_line_to_success(cell: Cell) -> None:
    """BOOTSTRAPPING, then SUCCESS, each with time, branch, commit and the boot's id (seed 001, Bootstrap Process)."""
    value = cell.boot()

    run = cell.start(value)

    run.serves()
    begun, served = run.lines()
    for line in (begun, served):
        assert (line.branch, line.commit, line.boot_id) == ("main", value.commit, value.id)
    assert begun.time <= served.time
    run.sleeps()


BAD_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"reason": 7}, "Expected `str`, got `int` - at `$.reason`"),
    ({"limits": {}}, "missing required field `bash_seconds`"),
]


def test_each_checkout_leads_to_the_one_signal_directory(cell: Cell) -> None:
    """`.signal` in the checkout is the watcher's directory, and git does not see it."""
    context = cell.context()
    cell_of(context.boot, context.checkout, Interruption())

    os.makedirs(context.boot.places.signals, exist_ok=True)
    assert os.path.realpath(f"{context.checkout}/.signal") == os.path.realpath(context.boot.places.signals)
    assert context.git("status", "--porcelain") == ""


@pytest.mark.heavy
def test_a_bad_value_ends_the_boot(cell: Cell) -> None:
    """Fail closed: what watcher and runner disagree about is told under the boot's own id."""
    for change, words in BAD_VALUES:
        value = cell.boot()
        text = json.dumps(json.loads(boot_values.to_json(value)) | change)

        failed(cell.start(value, text), Exit.CONFIG, words)


@pytest.mark.heavy
def test_no_value_ends_the_boot(cell: Cell) -> None:
    """Or one that is none. When somebody started the program by hand, the record cannot say for whom."""
    for text in ("", "{", "[]", '{"id": 1}'):
        run = cell.start(cell.boot(), text)
        assert run.ended() == Exit.CONFIG
    lines = [parse_line(line) for line in read(f"{cell.checkout}/logs/bootstrap.log").splitlines(keepends=True)]
    assert [line and (line.word, line.branch) for line in lines] == [
        (word, branch) for branch in ("-", *["main"] * 3) for word in ("BOOTSTRAPPING", "FAILED")
    ]
    assert "minifram up" in run.log() or "watcher sets it" in run.log()


@pytest.mark.heavy
def test_a_prompt_that_is_missing_or_empty_ends_the_boot(cell: Cell) -> None:
    """Without SYSTEM.md the agent would not know who it is."""
    os.unlink(f"{cell.code}/SYSTEM.md")
    failed(cell.start(cell.boot()), Exit.FAILURE, "SYSTEM.md cannot be read")

    write(f"{cell.code}/SYSTEM.md", " \n")
    failed(cell.start(cell.boot()), Exit.FAILURE, "SYSTEM.md is empty")

    Path(cell.code, "SYSTEM.md").write_bytes(b"\xff\xfe")
    failed(cell.start(cell.boot()), Exit.FAILURE, "SYSTEM.md cannot be read")

    write(f"{cell.code}/SYSTEM.md", "You are an agent.\n")
    cell.start(cell.boot()).serves()


@pytest.mark.heavy
def test_a_door_that_does_not_answer_is_not_the_versions_fault(cell: Cell) -> None:
    """Each door is named, with an exit code of its own; with both there again, the same version boots."""
    short = cell.boot(limits=limits(door_seconds=1.0))
    cell.model.healthy = False
    failed(cell.start(short), Exit.UNAVAILABLE, "the model door", "unavailable")
    cell.model.healthy = True

    os.rename(cell.places.model_socket, f"{cell.places.run}/away")
    failed(cell.start(cell.boot(limits=limits(door_seconds=0.1))), Exit.UNAVAILABLE, "the model door", "No such file")
    os.rename(f"{cell.places.run}/away", cell.places.model_socket)

    os.rename(cell.places.git_socket, f"{cell.places.run}/away")
    with listen(cell.places.git_socket):  # takes the connection, says nothing
        failed(cell.start(cell.boot(limits=limits(door_seconds=0.1))), Exit.UNAVAILABLE, "the git door", "timed out")
    os.rename(f"{cell.places.run}/away", cell.places.git_socket)

    cell.start(cell.boot()).serves()


@pytest.mark.fault("F68")
@pytest.mark.heavy
def test_a_door_that_comes_late_is_waited_for(cell: Cell) -> None:
    """The watcher starts the doors and the runner at the same time."""
    cell.open_doors()
    os.rename(cell.places.git_socket, f"{cell.places.run}/away")
    run = cell.start(cell.boot())
    with socket.socket(socket.AF_UNIX) as model:
        model.connect(cell.places.model_socket)  # the control: the other door is there
    while "BOOTSTRAPPING" not in run.words():
        assert run.process.poll() is None

    os.rename(f"{cell.places.run}/away", cell.places.git_socket)

    run.serves()


@pytest.mark.heavy
def test_without_bash_there_are_no_tools(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that does nothing is run; if it cannot be, the boot ends."""
    tools = f"{cell.places.bot}/tools"
    first, second = cell.boot(), cell.boot()
    monkeypatch.setenv("PATH", tools)  # the runner itself is started by an absolute path
    failed(cell.start(first), Exit.FAILURE, "bash cannot be run")

    write(f"{tools}/bash", "#!/bin/sh\nexit 3\n")
    os.chmod(f"{tools}/bash", stat.S_IRWXU)
    failed(cell.start(second), Exit.FAILURE, "ended with status 3")


@pytest.mark.heavy
def test_logs_that_cannot_be_written_end_the_boot(cell: Cell) -> None:
    """What the life file cannot be written to, no event could."""
    os.makedirs(f"{cell.checkout}/logs/life.json")

    failed(cell.start(cell.boot()), Exit.FAILURE, "nothing can be written under logs/")


@pytest.mark.heavy
def test_a_version_that_cannot_even_be_imported_has_left_its_mark(cell: Cell) -> None:
    """BOOTSTRAPPING without SUCCESS, and a traceback in the error log: what the watcher falls back on."""
    cell.changes_code("infra/shared/boot.py", "def ", "def (:")

    run = cell.start(cell.boot())

    assert run.ended() == Exit.FAILURE
    assert run.words() == ["BOOTSTRAPPING"]
    assert "SyntaxError" in run.log()


@pytest.mark.heavy
def test_a_mistake_on_the_way_up_is_told_with_its_traceback(cell: Cell) -> None:
    """A bug is no orderly failure, but its record names it all the same."""
    broken = "def preflight(boot, checkout):\n    1 / 0\n\n\ndef unused("
    cell.changes_code("infra/cell/life/start.py", "def preflight(", broken)

    run = cell.start(cell.boot())

    failed(run, Exit.FAILURE, "ZeroDivisionError")
    assert "Traceback" in run.log()


TOO_HEAVY = {
    *("subprocess", "dataclasses", "http.client", "email", "ssl", "logging", "pathlib", "tempfile"),
    *("shutil", "urllib.parse", "asyncio", "structlog", "git", "yaml", "psutil", "anthropic", "openai"),
    *("infra.cell.policy", "infra.shared.network", "infra.shared.approvals", "ipaddress", "fnmatch"),
}

COME_UP = """
import json, sys
sys.path[0] = sys.argv.pop()
from infra import runner
from infra.shared.redacted_file import guard_stderr
launch = runner.leave_mark([], 0.0)
guard_stderr()
from infra.cell.life.start import come_up
come_up(launch, ".")
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.heavy
def test_nothing_heavy_is_imported_before_success(cell: Cell) -> None:
    """How long a start takes is measured; a module that costs more than the rest may come after it only."""
    value = cell.boot(policy=Policy("ask", rules=(Rule("deny", domains=("pypi.org",)),)))
    cell.open_doors()
    run = subprocess.run(
        [sys.executable, "-E", "-s", "-c", COME_UP, cell.code],
        cwd=cell.checkout,
        env=cell.environment() | {boot_values.VARIABLE: boot_values.to_json(value)},
        capture_output=True,
        check=True,
        text=True,
    )

    modules = set(json.loads(run.stdout))
    assert TOO_HEAVY & modules == set()
    assert "socket" in modules, "the control: what is imported is seen"
