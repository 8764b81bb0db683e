"""A start of the runner, up to SUCCESS or to a failure that says why."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cell.cell import cell_of
from infra.cell.interruption import Interruption
from infra.cell.life.start import Unfit, preflight
from infra.keep.sockets import listen
from infra.shared import boot as boot_values
from infra.shared.boot import parse_line
from infra.shared.exit_codes import Exit
from infra.shared.policy import Policy, Rule
from tests.cell.cell import PROJECT, Cell, limits, read, write


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


def test_each_checkout_leads_to_the_one_signal_directory(cell: Cell) -> None:
    """`.signal` in the checkout is the watcher's directory, and git does not see it."""
    context = cell.context()
    cell_of(context.boot, context.checkout, Interruption())

    os.makedirs(context.boot.places.signals, exist_ok=True)
    assert os.path.realpath(f"{context.checkout}/.signal") == os.path.realpath(context.boot.places.signals)
    assert context.git("status", "--porcelain") == ""


@pytest.mark.heavy
def test_no_value_or_a_bad_one_ends_the_boot(cell: Cell) -> None:
    """Fail closed, under the boot's own id; of a start by hand the record cannot say whose it was."""
    ill_typed = json.dumps(json.loads(boot_values.to_json(cell.boot())) | {"reason": 7})
    for text, words in (("", "minifram up"), ("{", "the watcher sets it"), (ill_typed, "got `int` - at `$.reason`")):
        run = cell.start(cell.boot(), text)
        assert run.ended() == Exit.CONFIG
        assert words in run.log()
    lines = [parse_line(line) for line in read(f"{cell.checkout}/logs/bootstrap.log").splitlines(keepends=True)]
    assert [line and (line.word, line.branch) for line in lines] == [
        (word, branch) for branch in ("-", "main", "main") for word in ("BOOTSTRAPPING", "FAILED")
    ]


# What is missing, in this process.


def _another_bash(cell: Cell) -> None:
    write(f"{cell.places.bot}/tools/bash", "#!/bin/sh\nexit 3\n")
    os.chmod(f"{cell.places.bot}/tools/bash", 0o700)
    os.environ["PATH"] = f"{cell.places.bot}/tools"


def _a_silent_door(cell: Cell) -> None:
    """It takes the connection and says nothing."""
    os.rename(cell.places.git_socket, f"{cell.places.run}/away")
    os.symlink(f"{cell.places.run}/silent", cell.places.git_socket)


DAMAGES: tuple[tuple[Exit, str, Callable[[Cell], object]], ...] = (
    (Exit.FAILURE, "SYSTEM.md cannot be used.*No such", lambda cell: os.unlink(f"{cell.code}/SYSTEM.md")),
    (Exit.FAILURE, "put it back: it is empty", lambda cell: write(f"{cell.code}/SYSTEM.md", " \n")),
    (Exit.FAILURE, "SYSTEM.md.*decode", lambda cell: Path(cell.code, "SYSTEM.md").write_bytes(b"\xff\xfe")),
    (Exit.UNAVAILABLE, "model door.*: unavailable: ", lambda cell: setattr(cell.model, "healthy", False)),
    (Exit.UNAVAILABLE, "model door.*: .*No such file", lambda cell: os.unlink(cell.places.model_socket)),
    (Exit.UNAVAILABLE, "git door was not healthy within 0.1 s: .*timed out", _a_silent_door),
    (Exit.FAILURE, "bash cannot be run", lambda cell: os.environ.update(PATH="/nowhere")),
    (Exit.FAILURE, "ended with status 3", _another_bash),
    (Exit.FAILURE, "nothing can be written under", lambda cell: os.makedirs(f"{cell.checkout}/logs/life.json")),
)


@pytest.mark.parametrize(("code", "words", "damage"), DAMAGES)
def test_a_start_looks_at_all_that_work_needs(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, code: Exit, words: str, damage: Callable[[Cell], object]
) -> None:
    """It names the first thing that is missing; a door that does not answer is not the version's fault."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    os.makedirs(f"{cell.checkout}/logs", exist_ok=True)
    cell.open_doors()
    value = cell.boot(limits=limits(door_seconds=0.1))
    damage(cell)

    with listen(f"{cell.places.run}/silent"), pytest.raises(Unfit, match=words) as unfit:
        preflight(value, cell.checkout)

    assert unfit.value.code == code


FAILS = "def preflight(boot, checkout):\n    1 / 0\n\n\n"
BROKEN = (
    ("infra/shared/boot.py", "def ", "def (:", ["BOOTSTRAPPING"], "SyntaxError"),
    (
        "infra/cell/life/start.py",
        "def preflight(",
        f"{FAILS}def unused(",
        ["BOOTSTRAPPING", "FAILED"],
        "ZeroDivisionError",
    ),
)


@pytest.mark.heavy
@pytest.mark.parametrize(("path", "old", "new", "words", "mistake"), BROKEN)
def test_a_mistake_on_the_way_up_is_told_with_its_traceback(
    cell: Cell, path: str, old: str, new: str, words: list[str], mistake: str
) -> None:
    """BOOTSTRAPPING without SUCCESS: what the watcher falls back on, also where it cannot even be imported."""
    code, text = Path(cell.code), Path(PROJECT, path).read_text()
    assert old in text
    (code / "infra").unlink()
    shutil.copytree(f"{PROJECT}/infra", code / "infra", copy_function=os.symlink)
    (code / path).unlink()
    (code / path).write_text(text.replace(old, new))

    run = cell.start(cell.boot())

    assert run.ended() == Exit.FAILURE
    assert run.words() == words
    assert mistake in run.log()
    assert "FAILED" not in words or mistake in run.lines()[-1].details["reason"]


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
