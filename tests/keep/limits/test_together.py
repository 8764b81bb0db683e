"""Real processes, looked at and judged as the watcher does it, with limits of seconds."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from infra.keep.active import Runner
from infra.keep.limits.judge import Memory, judge, next_due
from infra.keep.limits.room import Kind, Removal
from infra.keep.limits.sample import take
from infra.keep.limits.values import Bounds, Finding, Remedy, Rule
from infra.keep.supervision.checkouts import Cell
from infra.keep.supervision.clearing import look, remove
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.safe_files import Below
from tests.keep.limits.conftest import Start
from tests.keep.supervision.agents import within
from tests.shared.repository.history import plain

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
SHORT = Bounds(
    sample_seconds=1.0, cpu_seconds=1.0, bash_seconds=1.0, validation_seconds=1.0, cpu_fraction=0.02, log_bytes=1 << 20
)
"""A small part of the processors counts as all: others use this machine as well."""


class Watch:
    """One agent's looks, each as soon as it counts."""

    def __init__(self, places: Paths, runner: Runner, keep: set[int]) -> None:
        self._places, self._runner, self._keep = places, runner, keep
        self._memory = Memory()

    def look(self) -> list[Finding]:
        time.sleep(max(0.0, next_due(self._memory, SHORT) - time.monotonic()))
        before = self._memory.last
        sample = take(self._places, OURS, self._runner, self._keep, before, self._memory.weigh)
        self._memory, found = judge(self._memory, sample, SHORT)
        return found


def _runner(process: subprocess.Popen[bytes]) -> Runner:
    return Runner("b" * 32, "main", "c" * 40, process.pid, 1.0)


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import os\nwhile True:\n  if os.fork() == 0:\n    for _ in range(9999): pass\n    os._exit(0)\n  os.wait()",
    ],
    ids=["spinner", "short-lived children"],
)
def test_a_runaway_is_found_and_its_quiet_neighbour_is_not(places: Paths, start: Start, program: str) -> None:
    """Twice the window, and then the very runner is named; a sleeper beside it is left in peace."""
    wild, quiet = start(program), start("import time\ntime.sleep(600)")
    watched, beside = Watch(places, _runner(wild), {quiet.pid}), Watch(places, _runner(quiet), {wild.pid})
    others: list[Finding] = []

    def ended() -> Finding | None:
        others.extend(beside.look())
        return next((finding for finding in watched.look() if finding.remedy is Remedy.END), None)

    finding = within(60, ended, "an end")
    assert finding.rule is Rule.CPU
    assert finding.runner == _runner(wild)
    assert others == []


def test_an_endless_line_is_cut_and_then_its_writer_is_to_be_ended(places: Paths, start: Start) -> None:
    """Cutting it helps nothing; when the writer is gone there is nothing to find."""
    log = Path(places.main_checkout, "logs/errors.log")
    program = "import os, sys, time\nf = os.open(sys.argv[1], 1025 | 64)\n"
    writer = start(f"{program}while True:\n  os.write(f, b'y' * 65536)\n  time.sleep(0.01)", str(log))
    watched = Watch(places, _runner(writer), set())
    seen: list[Remedy] = []

    def ended() -> Finding | None:
        for finding in watched.look():
            if finding.rule is Rule.LOGS:
                seen.append(finding.remedy)
                if finding.remedy is Remedy.TRIM_LOG:
                    Below(places.bot).cut(finding.path, 1000)
                else:
                    return finding
        return None

    finding = within(60, ended, "an end")
    assert Remedy.TRIM_LOG in seen
    assert finding.path == "main/minifram/logs/errors.log"
    writer.kill()
    writer.wait()
    Below(places.bot).cut(finding.path, 1000)

    def quiet() -> bool | None:
        return not any(finding.rule is Rule.LOGS for finding in watched.look()) or None

    assert within(60, quiet, "quiet")


def test_a_running_transcript_is_never_cut(places: Paths) -> None:
    """The look at the files knows a record by its place; another file of that size is cut."""
    for name in ("transcripts/run.jsonl", "bootstrap.log", "outputs/x.txt", "hand-over.md", "mine/transcripts/x.log"):
        path = Path(places.main_checkout, "logs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (4 << 20))
    memory, found = judge(Memory(), take(places, OURS, Runner("b" * 32, "main", "c" * 40, 1, 1.0), ()), SHORT)
    assert [finding.path for finding in found] == ["main/minifram/logs/mine/transcripts/x.log"]
    assert memory.last
    assert sum(log.is_record for log in memory.last.logs) == 4


@needs_root
def test_what_is_the_cells_is_looked_at_and_removed_as_the_cell(places: Paths, tmp_path: Path) -> None:
    """A clone in a directory that only the cell may enter; what is not the cell's stays, whatever was chosen."""
    user = Identity(54_321, 54_321)
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path != Path("/"):
            os.chmod(path, path.stat().st_mode | 0o011)
    os.chmod(places.remote, 0o700)  # the shared repository is for the keep alone
    plain(tmp_path, "clone", "-q", places.remote, f"{places.bot}/idea/minifram")
    plain(Path(places.bot, "idea/minifram"), "checkout", "-q", "-b", "idea")
    Path(places.bot, "keeps/minifram.removed-0").mkdir(parents=True)
    subprocess.run(["chown", "-R", "54321:54321", f"{places.bot}/idea"], check=True)
    os.chown(places.bot, 54_321, 54_321)
    os.chmod(f"{places.bot}/idea", 0o700)
    cell = Cell(places, places.remote, user)
    found = {clone.branch: clone.stays for clone in look(cell, "main", False).clones}
    assert found == {"main": "it is not a clone", "idea": ""}
    (kept,) = remove([Removal(Kind.LEFTOVER, "keeps/minifram.removed-0")], cell)
    assert "Permission denied" in kept.problem
    assert Path(places.bot, "keeps/minifram.removed-0").is_dir()
    (gone,) = remove([Removal(Kind.CLONE, "idea")], cell)
    assert gone.problem == ""
    assert not os.path.lexists(f"{places.bot}/idea")
