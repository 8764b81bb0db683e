"""The limits: the judge over whole series of samples; samples of the real machine; and what is done about them."""

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
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infra.keep.limits.judge import Bounds, Finding, Log, Memory, Remedy, Sample, Volume, after_cut, judge
from infra.keep.limits.sample import MOST_LOGS, take
from infra.keep.limits.watch import TOLD_SECONDS, LimitWatch
from infra.keep.supervision.decide.events import Event, MustEnd, Observed
from infra.keep.watcher_file import Runner
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from tests.keep.supervision.agents import within

MIB, GIB = 1 << 20, 1 << 30
WINDOW = 1800.0
ROOMY = Volume("/bot", 100 * GIB, 900_000, 1_000_000)
BEGINNING = Sample("b" * 32, cores=2.0, cpu_seconds=100.0, ledger_bytes=7)
Remedies = list[Remedy]


class Series:
    """One agent over time; what is said to be cut is cut."""

    def __init__(self, limits: Bounds | None = None, **first: object) -> None:
        self.limits, self.at, self.last = limits or Bounds(), 1000.0, BEGINNING._replace(**first)  # type: ignore[arg-type]
        self.memory, self.found = judge(Memory(), self.last, self.at, self.limits)

    def look(self, seconds: float = 30.0, cores: float = 0.0, calls: int = 0, **changed: object) -> list[Finding]:
        """`seconds` later, in which the agent used `cores` processors and called the model so often."""
        self.at += seconds
        used, ledger = self.last.cpu_seconds + cores * seconds, self.last.ledger_bytes + calls
        self.last = self.last._replace(cpu_seconds=used, ledger_bytes=ledger)._replace(**changed)  # type: ignore[arg-type]
        self.memory, self.found = judge(self.memory, self.last, self.at, self.limits)
        return self.found

    def looks(self, seconds: float, cores: float = 0.0) -> list[Finding]:
        """Each 30 s for so long; gives all that was found."""
        return [finding for _ in range(int(seconds // 30)) for finding in self.look(cores=cores)]

    def logs(self, *sizes: int, boot_id: str = BEGINNING.boot_id) -> Remedies:
        """What follows from logs of these MiB."""
        logs = tuple(log(size, f"{number}.log") for number, size in enumerate(sizes))
        return remedies(self.look(logs=logs, boot_id=boot_id))


def remedies(found: list[Finding]) -> Remedies:
    return [finding.remedy for finding in found]


def log(mib: int, name: str = "errors.log") -> Log:
    return Log(f"main/minifram/logs/{name}", mib * MIB)


def record(mib: int) -> Log:
    return log(mib, "a record")._replace(is_record=True)


@pytest.mark.fault("F56")
def test_a_runaway_is_told_after_one_window_and_ended_after_two() -> None:
    """All processors and no model call; one that is not ended is named again after each further window."""
    series = Series()
    assert series.looks(WINDOW - 30, cores=2) == []
    (told,) = series.look(cores=2)
    assert (told.rule, told.remedy) == ("cpu", Remedy.TELL)
    assert series.looks(WINDOW - 30, cores=2) == []
    (end,) = series.look(cores=2)
    assert (end.rule, end.remedy) == ("cpu", Remedy.END)
    assert "2.00 of 2 processors for 1800 s" in end.text
    assert remedies(series.looks(WINDOW, cores=2)) == [Remedy.END]


@pytest.mark.fault("F56")
def test_a_long_build_is_no_runaway() -> None:
    """15 minutes on all processors, many times over with model calls between; nor 45 minutes and then rest."""
    series = Series()
    for _ in range(4):
        assert series.looks(900, cores=2) + series.look(cores=0.1, calls=1) == []
    assert remedies(series.looks(2700, cores=2) + series.looks(3600)) == [Remedy.TELL]
    assert remedies(series.looks(2 * WINDOW, cores=2)) == [Remedy.TELL], "a window of rest forgives"


@pytest.mark.parametrize("bounds", [{"bash_seconds": 7200.0}, {"validation_seconds": 7200.0}])
def test_no_command_within_its_own_limit_is_a_runaway(bounds: dict[str, float]) -> None:
    """A PM who lets commands run for hours lets them take the processors for hours."""
    assert Series(Bounds(**bounds)).looks(7170, cores=2) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fraction", "cores", "is_runaway"), [(0.95, 1.8, False), (0.95, 1.95, True), (0.5, 1.1, True), (0.95, 0.2, False)]
)
def test_what_all_processors_are(fraction: float, cores: float, is_runaway: bool) -> None:
    """`cpu_fraction` of those that the agent may use, whatever others take."""
    assert (Remedy.END in remedies(Series(Bounds(cpu_fraction=fraction)).looks(2 * WINDOW, cores))) is is_runaway


def test_another_boot_is_judged_for_itself() -> None:
    """Neither what the one before it took nor what its logs held counts."""
    series = Series()
    series.looks(2 * WINDOW - 30, cores=2)
    assert series.look(cores=2, boot_id="c" * 32, logs=(log(30),)) == []
    assert series.logs(30 + 11, boot_id="c" * 32) == [Remedy.CUT]
    assert series.logs(30 + 22, boot_id="d" * 32) == []


def test_a_log_that_explodes_is_cut_and_then_its_writer_ended() -> None:
    """By rate: 20 MiB a minute are allowed, so 10 between two samples."""
    series = Series()
    assert series.logs(10) == []
    assert series.logs(21) == [Remedy.CUT]
    cut = series.found[0].log
    assert cut == log(21, "0.log")
    series.memory = after_cut(series.memory, cut)
    assert series.logs(11, 1) == [Remedy.END]
    assert "grew by 11534336 bytes in 30 s" in series.found[0].text


def test_a_burst_is_forgiven() -> None:
    """What is kept of a log that was cut is no growth, and one that could not be cut does not grow by that."""
    series = Series()
    assert series.logs(50) == [Remedy.CUT]
    series.memory = after_cut(series.memory, log(50))
    assert series.logs(0, 1) == []
    assert series.logs(50) == [Remedy.CUT]
    assert series.logs(50) == []


@pytest.mark.fault("F57")
def test_many_logs_count_together_and_a_renamed_one_is_the_same() -> None:
    """Neither spreading nor rotating hides it; rotating alone is no growth."""
    series = Series(logs=(log(15),))
    assert series.logs(0, 15) == []
    assert series.logs(3, 15, 3, 3, 3) == [Remedy.CUT]
    assert series.found[0].log == log(15, "1.log")


def test_a_large_log_is_cut_however_slowly_it_grew() -> None:
    """And nobody is ended for it, also when it cannot be cut."""
    series = Series(logs=(log(61), log(60, "other.log")))
    for _ in range(5):
        assert (remedies(series.found), series.found[0].log) == ([Remedy.CUT], log(61))
        series.look()


def test_a_record_is_never_cut() -> None:
    """What a run is resumed from counts with the rest; another log is cut in its place, or the PM is told."""
    series = Series()
    (cut,) = series.look(logs=(record(50), log(1)))
    assert cut.log == log(1)
    series = Series()
    assert remedies(series.look(logs=(record(100),))) == [Remedy.TELL]
    assert remedies(series.look(logs=(record(150),))) == [Remedy.END]
    assert series.look() == [], "its size alone ends nobody"


@pytest.mark.parametrize(
    ("volume", "is_short"),
    [
        (ROOMY, False),
        (ROOMY._replace(free=255 * MIB), True),
        (ROOMY._replace(inodes_free=49_999), True),
        (ROOMY._replace(inodes_free=50_000), False),
        (ROOMY._replace(inodes=0, inodes_free=0), False),
    ],
)
@pytest.mark.fault("F41")
def test_a_short_disk_is_told(volume: Volume, is_short: bool) -> None:
    """In bytes or in files; nobody is ended, however long it stays so."""
    series = Series()
    for _ in range(5):
        found = series.look(volumes=(volume,))
        assert [(each.rule, each.remedy) for each in found] == [("disk", Remedy.TELL)] * is_short


_looks = st.tuples(st.floats(0, 200), st.floats(0, 2), st.integers(0, 1), st.integers(0, 99), st.booleans())


@given(st.lists(_looks, max_size=80))
def test_an_end_always_follows_what_was_told(looks: list[tuple[float, float, int, int, bool]]) -> None:
    """Whatever happens in whatever order: the rule that ends a boot has told or cut something of this boot before."""
    series, warned = Series(Bounds(cpu_seconds=90, bash_seconds=90, validation_seconds=90)), set[str]()
    for seconds, cores, calls, size, is_another in looks:
        warned = set() if is_another else warned
        boot_id = series.last.boot_id + "b" * is_another
        for finding in series.look(seconds, cores, calls, logs=(log(size),), boot_id=boot_id):
            assert finding.remedy is not Remedy.END or finding.rule in warned
            warned.add(finding.rule)


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


def test_the_ledger_is_weighed_and_one_disk_is_looked_at_once(places: Paths) -> None:
    """No ledger is as long as nothing; the agent's directory and the keep's lie on the same disk."""
    (volume,) = sample(places).volumes
    assert (volume.path, volume.free > 0) == (places.bot, True)
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


# The limits at work: what is done about a real agent's logs and processes, and what the PM reads of it.


RUNNER = Runner(boot_id="b" * 32, branch="main", commit="c" * 40, pid=4242)


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
