"""Samples of the real machine: what runs, what is written, and what a hostile cell puts in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.keep.limits.judge import Sample
from infra.keep.limits.sample import MOST_LOGS, take
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from tests.keep.limits.conftest import Start
from tests.keep.supervision.agents import within

CELL = Identity(54_321, 54_321)


def sample(places: Paths, cell: Identity = OURS, group: str = "/nowhere") -> Sample:
    return take(places, cell, "b" * 32, "main", group)


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import os\nwhile True:\n  if os.fork() == 0:\n    for _ in range(99999): pass\n    os._exit(0)\n  os.wait()",
        "import os\nup = os.getpid()\nif os.fork() == 0:\n  os.setsid()\n  while os.getppid() == up: pass\nos.wait()",
        "open('/proc/self/comm', 'wb').write(b'x) R 1 1\\n(9')\nwhile True: pass",
    ],
    ids=["spinner", "short-lived children", "a session of its own", "a name that lies"],
)
@pytest.mark.fault("F08")
def test_what_descends_from_us_is_counted(places: Paths, start: Start, program: str) -> None:
    """As it runs, and through whoever waited for it."""
    first = sample(places)
    start(program)
    within(30, lambda: sample(places).cpu_seconds - first.cpu_seconds >= 0.5, "half a second of processor time")


def test_what_has_ended_stays_counted(places: Paths) -> None:
    """Of what was handed to the watcher, too."""
    before = sample(places)
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", spin], check=True)
    assert sample(places).cpu_seconds - before.cpu_seconds >= 0.25


def test_a_stopped_process_keeps_nobody_waiting(places: Paths, start: Start) -> None:
    """It is seen as it is."""
    os.kill(start("while True: pass").pid, signal.SIGSTOP)
    assert sample(places).cores == len(os.sched_getaffinity(0))


@pytest.mark.fault("F56")
def test_in_a_container_its_own_count_is_taken(places: Paths, tmp_path: Path) -> None:
    """Where the cell has a user of its own and the group is no machine's; a container's bound is what there is."""
    group = tmp_path / "group"
    group.mkdir()
    (group / "cpu.stat").write_text("usage_usec 9000000000\nuser_usec 1\n")
    (group / "cpu.max").write_text("50000 100000\n")
    assert sample(places, CELL, str(group)).cpu_seconds < 9000
    (group / "cgroup.type").write_text("domain\n")
    assert sample(places, OURS, str(group)).cpu_seconds < 9000
    found = sample(places, CELL, str(group))
    assert (found.cpu_seconds, found.cores) == (9000, 0.5)
    (group / "cpu.max").write_text("max 100000\n")
    assert sample(places, CELL, str(group)).cores == len(os.sched_getaffinity(0))


def test_the_ledger_is_weighed(places: Paths) -> None:
    """None is as long as nothing."""
    assert sample(places).ledger_bytes == 0
    Path(places.ledger).write_text("{}\n")
    assert sample(places).ledger_bytes == 3


def test_logs_are_weighed_and_nothing_else_is(places: Paths, tmp_path: Path) -> None:
    """A pipe, a link to a large file, a link to a directory, a hole: none of them counts, none of them blocks."""
    logs = Path(places.main_checkout, "logs")
    (logs / "errors.log").write_bytes(b"x" * 100_000)
    (logs / "deep").mkdir()
    (logs / "deep/er.log").write_bytes(b"y" * 5000)
    (tmp_path / "large").write_bytes(b"z" * 1_000_000)
    (logs / "link.log").symlink_to(tmp_path / "large")
    (logs / "all").symlink_to("/")
    os.mkfifo(logs / "pipe.log")
    with open(logs / "hole.log", "wb") as hole:
        hole.truncate(1 << 40)
    sizes = {log.path.rpartition("logs/")[2]: log.size for log in sample(places).logs}
    assert sizes == {"errors.log": 100_000, "deep/er.log": 5000, "hole.log": 0}


def test_a_record_is_known_by_its_place(places: Paths) -> None:
    """What a run is resumed from; a file elsewhere that is named like one is a log, and a whole output is none."""
    for name in ("transcripts/run.jsonl", "bootstrap.log", "outputs/x.txt", "mine/transcripts/x.log"):
        path = Path(places.main_checkout, "logs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    logs = sample(places).logs
    assert [log.path for log in logs if not log.is_record] == ["main/minifram/logs/mine/transcripts/x.log"]
    assert not any(log.path.endswith("outputs/x.txt") for log in logs)


def test_there_is_an_end_to_looking(places: Paths) -> None:
    """However many logs there are."""
    for number in range(MOST_LOGS + 5):
        Path(places.main_checkout, f"logs/{number}.log").touch()
    assert len(sample(places).logs) == MOST_LOGS


def test_one_disk_is_looked_at_once(places: Paths) -> None:
    """When the agent's directory and the keep's lie on the same."""
    (volume,) = sample(places).volumes
    assert (volume.path, volume.free > 0) == (places.bot, True)
