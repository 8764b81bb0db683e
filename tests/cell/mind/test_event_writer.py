"""Events are appended to one chain, whatever the files, the disk, the clock and other writers do."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from infra.cell.mind.event import START, ChainTip, MindEvent, path_of
from infra.cell.mind.event_chain import verify
from infra.cell.mind.event_log import event_files, logged, tip
from infra.cell.mind.event_writer import EventWriter
from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below
from tests.shared.mind.events import DAY, event_of
from tests.shared.rows import each_row

PATH = path_of(DAY)


class Bench:
    """A writer in a mind of its own; `said` are its words for the log."""

    def __init__(self, root: Path) -> None:
        self.root, self.below = root, Below(str(root))
        self.said: list[str] = []
        self.writer = self.another()

    def another(self) -> EventWriter:
        return EventWriter(str(self.root), lambda word, **facts: self.said.append(word))

    def append(self, words: str = "", at: str = DAY) -> ChainTip:
        return self.writer.append(event_of(words, at))

    def words(self) -> list[str]:
        return [each.event.outcomes.observations for each in logged(self.below) if each.event]

    def problems(self) -> list[str]:
        return [str(each.problem) for each in logged(self.below) if each.problem]

    def is_whole(self) -> bool:
        return not verify(logged(self.below))


def test_one_line_for_each_event_and_one_chain_over_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert tip(bench.below) == START
    last = [bench.append(str(number)) for number in range(3)][-1]
    bench.writer = bench.another()
    assert bench.append("3").seq == 4 == last.seq + 1
    assert bench.words() == ["0", "1", "2", "3"]
    assert bench.is_whole()
    assert bench.writer.noted_by(lambda *told: str(told == (tip(bench.below), 4))) == "True", "its own events alone"
    assert not bench.said


def test_secrets_do_not_reach_the_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append("postgres://app:tr0ub4dor@db/x")
    assert b"tr0ub4dor" not in (tmp_path / PATH).read_bytes()
    assert bench.is_whole()


@each_row(
    "left, lost",
    [
        (lambda raw: raw[:-1], 0),
        (lambda raw: raw[:-40], 1),
        (lambda raw: raw + b'{"timestamp":"20', 0),
        (lambda raw: raw + b"\0" * 600, 0),
        (lambda raw: raw[:-1] + b"\0" * 70_000, 1),
        (lambda raw: raw + b"\xff\xfebinary", 0),
    ],
)
def test_what_is_torn_costs_its_own_line_and_the_chain_goes_on(left: Callable[[bytes], bytes], lost: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place))
        for number in range(3):
            bench.append(str(number))
        path = Path(place) / PATH
        path.write_bytes(left(path.read_bytes()))
        bench.writer = bench.another()
        assert bench.append("then").seq == 4 - lost
        assert bench.words() == [*map(str, range(3 - lost)), "then"]
        assert not [each for each in verify(logged(bench.below)) if "no JSON" not in each.words]


def test_without_the_file_of_a_day_the_newest_that_is_there_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append("one", "2026-01-30T23:59:59.000Z")
    bench.append("two")
    os.unlink(tmp_path / PATH)
    bench.writer = bench.another()
    assert bench.append("three").seq == 2
    assert bench.words() == ["one", "three"]


def test_events_that_go_while_a_run_writes_are_told_of_and_the_chain_shows_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append("one")
    bench.append("two")
    os.unlink(tmp_path / PATH)
    assert bench.append("three").seq == 3
    assert bench.said == ["mind.events_lost"]
    assert "missing" in verify(logged(bench.below))[0].words


def test_a_clock_that_is_set_back_or_stands_in_year_9999_breaks_no_chain(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for at in ("2026-02-01T00:00:01.000Z", "9999-12-31T23:59:59.999Z", "2026-01-31T23:59:59.000Z", DAY):
        bench.writer = bench.another()
        bench.append(at, at)
    assert len(event_files(bench.below)) == 3
    assert bench.is_whole()


def test_two_runners_at_once_write_one_chain_and_it_is_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    other = bench.another()
    for number in range(6):
        (bench.writer if number % 2 else other).append(event_of(str(number)))
    assert bench.words() == [str(number) for number in range(6)]
    assert bench.is_whole()
    assert set(bench.said) == {"mind.events_written_by_another"}


def test_runners_in_processes_of_their_own_write_one_chain(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from infra.cell.mind.event_writer import EventWriter\n"
        "from tests.shared.mind.events import event_of\n"
        "writer = EventWriter(sys.argv[1], lambda word, **facts: None)\n"
        "for number in range(40): writer.append(event_of(str(number)))\n"
    )
    project = str(Path(__file__).parents[3])
    started = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=project) for _ in range(2)]
    assert [each.wait(60) for each in started] == [0, 0]
    assert len(Bench(tmp_path).words()) == 80
    assert Bench(tmp_path).is_whole()


def _file_for_events(root: Path) -> None:
    (root / "logs").mkdir()
    (root / EVENTS).write_text("a file")


def _file_for_logs(root: Path) -> None:
    (root / "logs").write_text("a file")


def _pipe(root: Path) -> None:
    (root / EVENTS).mkdir(parents=True)
    os.mkfifo(root / PATH)


def _link(root: Path) -> None:
    (root / EVENTS).mkdir(parents=True)
    os.symlink("/dev/null", root / PATH)


def _directory(root: Path) -> None:
    (root / PATH).mkdir(parents=True)


@pytest.mark.parametrize("make", [_file_for_events, _file_for_logs, _pipe, _link, _directory])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    with pytest.raises(OSError, match=r"."):
        Bench(tmp_path).append()


@pytest.fixture
def small_files() -> Iterator[None]:
    """As on a full disk: no file grows beyond 2,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("small_files")
def test_of_an_event_that_finds_no_room_nothing_is_left(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append("one")
    with pytest.raises(OSError, match=r".") as failed:
        bench.append("two" * 500)
    assert failed.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert bench.words() == ["one"]
    bench.append("")
    assert bench.words() == ["one", ""]
    assert bench.is_whole()


def test_a_lock_that_is_never_given_up_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.writer = EventWriter(str(tmp_path), print, lock_seconds=0.05)
    bench.append()
    held = os.open(tmp_path / EVENTS, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(OSError, match="locked"):
        bench.append()
    os.close(held)
    assert bench.append().seq == 2


def test_details_that_json_cannot_hold_write_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    event: MindEvent = event_of()
    event = msgspec.structs.replace(
        event, metadata=msgspec.structs.replace(event.metadata, details={"x": float("nan")})
    )
    with pytest.raises(ValueError, match="compliant"):
        bench.writer.append(event)
    assert bench.append().seq == 1
