"""Samples of the real machine: what runs, what is written, and what a hostile cell puts in the way."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace

from infra.keep.limits.judge import Bounds, Sample
from infra.keep.limits.sample import MOST_LOGS, take
from infra.keep.limits.watch import TOLD_SECONDS, LimitWatch
from infra.keep.supervision.decide.events import Event, MustEnd, Observed
from infra.keep.watcher_file import Runner
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
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


# The limits at work: what is done about a real agent's logs and processes, and what the PM reads of it.


RUNNER = Runner(boot_id="b" * 32, branch="main", commit="c" * 40, pid=4242)
MIB = 1 << 20


class Watched:
    """An agent whose watcher's clock is ours."""

    def __init__(self, places: Paths, **bounds: float) -> None:
        self.log = Path(places.main_checkout, "logs/errors.log")
        limits = Bounds(**{"log_bytes": MIB, "free_bytes": 1, **bounds})  # type: ignore[arg-type]
        self.watch = LimitWatch(places, OURS, limits, structlog.get_logger())
        self.at = 0.0

    def look(self, seconds: float = 30.0, runner: Runner | None = RUNNER) -> list[Event]:
        self.at += seconds
        return self.watch.look(runner, self.at)

    def told(self) -> list[str]:
        return [event.title for event in self.look() if isinstance(event, Observed)]


@pytest.fixture
def watched(places: Paths) -> Watched:
    return Watched(places)


def test_the_pm_hears_of_the_same_thing_once_a_day(places: Paths) -> None:
    """A disk that stays short."""
    watched = Watched(places, free_bytes=1 << 60)
    assert [watched.told() for _ in range(3)] == [["a limit: disk"], [], []]
    watched.at += TOLD_SECONDS
    assert watched.told() == ["a limit: disk"]


def test_samples_have_their_time(watched: Watched) -> None:
    """Those of one boot are `sample_seconds` apart; another boot is looked at at once, and none is none."""
    assert watched.look(runner=None) == []
    watched.look()
    assert watched.watch.due == watched.at + 30
    watched.log.write_bytes(b"y" * 9 * MIB)
    assert watched.look(29.9) == []
    assert watched.look(0.0, replace(RUNNER, boot_id="d" * 32)) != []


def test_what_cannot_be_sampled_or_cut_ends_nobody(watched: Watched, places: Paths) -> None:
    """A log in a directory that the agent closed; no directory at all."""
    watched.log.write_bytes(b"y" * 4 * MIB)
    os.mkdir(f"{watched.log}.1")
    os.mkdir(f"{watched.log}.1/full")
    for _ in range(3):
        assert not any(isinstance(event, MustEnd) for event in watched.look())
    shutil.rmtree(places.bot)
    assert watched.look() == []


Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    """The directories of one agent; nothing runs."""
    places = Paths(*(str(tmp_path / name) for name in ("bot", "remote.git", "run", "var")))
    for path in (f"{places.main_checkout}/logs", places.run, places.var):
        os.makedirs(path)
    return places


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python programs; each is ended, with its process group, and waited for."""
    started = []

    def begin(program: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", program], start_new_session=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
