"""Looks at the real machine: what runs, what is written, and what a hostile cell puts in the way."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.active import Runner
from infra.keep.limits import growth, processor
from infra.keep.limits.sample import take
from infra.keep.limits.values import Process, Sample
from infra.keep.limits.windows import used
from infra.shared.boot import VARIABLE, Boot, Limits, to_json
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from tests.keep.limits.conftest import Start
from tests.keep.supervision.agents import within
from tests.shared.repository.history import plain

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
SPIN = "while True: pass"
LIVED = (
    "import os, time\nwhile True:\n  if os.fork() == 0:\n    for _ in range(200000): pass\n    os._exit(0)\n  os.wait()"
)
"""Its children use the time, and none of them lives for long."""
CELL = Identity(54_321, 54_321)
"""Nobody is this user; so nothing else is found."""


def runner_of(process: subprocess.Popen[bytes], branch: str = "main") -> Runner:
    return Runner("b" * 32, branch, "c" * 40, process.pid, 1.0)


def grown(look: Callable[[], Sample], seconds: float = 0.3) -> tuple[Sample, Sample]:
    """A look, and one by which so much processor time was used."""
    first = look()

    def enough() -> Sample | None:
        now = look()
        return now if used(first, now) >= seconds else None

    return first, within(30, enough, f"{seconds} s of processor time")


def test_what_the_runner_and_its_children_use_is_seen_and_the_keeps_is_not(places: Paths, start: Start) -> None:
    """Both spin; only one is the cell's."""
    cell, keep = start(SPIN), start(SPIN)
    _, after = grown(lambda: take(places, OURS, runner_of(cell), {keep.pid}))
    pids = {process.pid for process in after.processes}
    assert cell.pid in pids
    assert not pids & {keep.pid, os.getpid()}
    assert after.left_out == ()


def test_children_that_end_before_they_are_seen_are_counted(places: Paths, start: Start) -> None:
    """Their time is their parent's once it has waited for them."""
    cell = start(LIVED)

    def look() -> tuple[Sample, Process]:
        sample = take(places, OURS, runner_of(cell), ())
        (found,) = (process for process in sample.processes if process.pid == cell.pid)
        return sample, found

    before, first = look()

    def enough() -> tuple[Sample, Process] | None:
        """By its children alone: our own looks start git, and that is time that this process waited for too."""
        sample, now = look()
        return (sample, now) if now.children - first.children >= 0.3 else None

    after, last = within(60, enough, "0.3 s of processor time of its children")
    assert last.own - first.own < last.children - first.children
    assert used(before, after) >= last.children - first.children


def test_orphans_that_the_watcher_waited_for_are_counted(places: Paths) -> None:
    """They were handed to it; what they used is in what it has waited for."""
    before = take(places, OURS, None, ())
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", spin], check=True)
    assert used(before, take(places, OURS, None, ())) >= 0.25


HIDDEN = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
print(os.getpid(), flush=True)
while True: pass
"""


def _boot(places: Paths) -> str:
    limits = Limits(1.0, 1, 1.0)
    return to_json(Boot("b" * 32, "main", "c" * 40, "start", "x", "merge", places, limits))


@pytest.mark.parametrize("ours", [True, False])
def test_who_left_the_family_is_known_by_its_environment(places: Paths, start: Start, ours: bool) -> None:
    """A process of an earlier watcher's boot is nobody's descendant; one of another agent's boot is not ours."""
    boot = _boot(places if ours else places._replace(var="/elsewhere"))
    parent = start(HIDDEN, env={VARIABLE: boot}, stdout=subprocess.PIPE)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    try:
        parent.wait()
        found = {process.pid for process in take(places, OURS, None, ()).processes}
        assert (pid in found) is ours
    finally:
        os.kill(pid, signal.SIGKILL)


NAMED = "open('/proc/self/comm', 'wb').write(bytes.fromhex({name!r}))\nprint(flush=True)\nwhile True: pass"


@pytest.mark.parametrize("name", [b"x) R 1 1\n(9", b"a\nUid:\t0", b"(((", b") ) )", b"\xff\xfe\x00"])
def test_a_name_cannot_lie_about_its_process(places: Paths, start: Start, name: bytes) -> None:
    """Parentheses, newlines and what looks like another field: its time is read all the same."""
    cell = start(NAMED.format(name=name.hex()), stdout=subprocess.PIPE)
    assert cell.stdout
    cell.stdout.readline()
    _, after = grown(lambda: take(places, OURS, runner_of(cell), ()), 0.1)
    (found,) = (process for process in after.processes if process.pid == cell.pid)
    assert found.own > 0
    assert found.name.isprintable()
    assert "\n" not in found.name


@given(st.binary(max_size=64), st.integers(1, 2**22), st.integers(0, 2**40), st.integers(0, 2**31))
def test_any_name_is_read_over(name: bytes, pid: int, started: int, ticks: int) -> None:
    """The numbers after the last parenthesis are the kernel's."""
    fields = ["S", "7", *["0"] * 9, str(ticks), "0", "0", "0", "20", "0", "1", "0", str(started), "0"]
    seen = processor.parsed_stat(b"%d (%s) %s\n" % (pid, name, " ".join(fields).encode()))
    assert seen
    assert (seen.process.pid, seen.process.started, seen.parent) == (pid, started, 7)
    assert seen.process.own == ticks / os.sysconf("SC_CLK_TCK")


@given(st.binary(max_size=200))
def test_what_is_no_line_of_the_table_is_none(content: bytes) -> None:
    """It is passed over, never raised."""
    seen = processor.parsed_stat(content)
    assert seen is None or seen.process.own >= 0


UNDUMPABLE = f"import os; os.setresgid(*[{CELL.gid}] * 3); os.setresuid(*[{CELL.uid}] * 3)\nprint(flush=True)\n{SPIN}"
"""Who changes its user is undumpable until it starts another program."""


@needs_root
def test_in_a_container_a_process_is_the_cells_by_its_user(places: Paths, start: Start) -> None:
    """Whoever its parent is, and though it is undumpable; ours are not."""
    hidden = start(UNDUMPABLE, stdout=subprocess.PIPE)
    ours = start(SPIN)
    assert hidden.stdout
    hidden.stdout.readline()
    assert os.stat(f"/proc/{hidden.pid}/environ").st_uid == 0
    after = take(places, CELL, None, ())
    assert {process.pid for process in after.processes} == {hidden.pid}
    assert ours.poll() is None


def test_many_processes_are_counted_each_once(places: Paths, start: Start) -> None:
    """A hundred at a time, some gone while they are looked at."""
    program = (
        "import os, time\nfor _ in range(100):\n  if os.fork() == 0:\n    time.sleep(60)\nprint(flush=True)\nos.wait()"
    )
    program = program.replace("    time.sleep(60)", "    time.sleep(60)\n    os._exit(0)")
    cell = start(program, stdout=subprocess.PIPE)
    assert cell.stdout
    cell.stdout.readline()
    found = [process.pid for process in take(places, OURS, runner_of(cell), ()).processes]
    assert len(found) == len(set(found)) >= 101


def test_the_clocks_are_the_kernels_and_the_processors_are_counted(places: Paths) -> None:
    """Two looks in a row: both clocks go on together."""
    first, second = take(places, OURS, None, ()), take(places, OURS, None, ())
    awake = second.monotonic - first.monotonic
    assert awake > 0
    assert abs((second.boottime - first.boottime) - awake) < 0.5
    assert first.cores == len(os.sched_getaffinity(0))
    assert first.took > 0


def test_a_containers_own_count_is_read_where_it_is_one_containers(tmp_path: Path) -> None:
    """Less what the keep used; none for a group that others are in, or for the machine's."""
    every = processor.table([])
    me = every[os.getpid()].process
    others = [seen.process for seen in every.values() if seen.process != me]
    group = tmp_path / "group"
    group.mkdir()
    (group / "cpu.stat").write_text("usage_usec 9000000000\nuser_usec 1\n")
    (group / "cgroup.procs").write_text(f"{me.pid}\n")
    assert processor.group_seconds(every, others, str(group)) is None
    (group / "cgroup.type").write_text("domain\n")
    assert processor.group_seconds(every, others, str(group)) == pytest.approx(9000 - me.own)
    (group / "cgroup.procs").write_text(f"{me.pid}\n0\n")
    assert processor.group_seconds(every, others, str(group)) is None
    (group / "cpu.max").write_text("50000 100000\n")
    assert processor.cores(str(group)) == 0.5
    (group / "cpu.max").write_text("max 100000\n")
    assert processor.cores(str(group)) == len(os.sched_getaffinity(0))


def test_logs_are_weighed_and_nothing_else_is(places: Paths, start: Start, tmp_path: Path) -> None:
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
    found = take(places, OURS, runner_of(start(SPIN)), ())
    sizes = {log.name.rpartition("logs/")[2]: log.size for log in found.logs}
    assert sizes == {"errors.log": 100_000, "deep/er.log": 5000, "hole.log": 0}
    assert found.left_out == ()


@pytest.mark.parametrize("where", ["logs", "minifram", "main"])
def test_no_link_on_the_way_to_the_logs_is_followed(places: Paths, start: Start, tmp_path: Path, where: str) -> None:
    """Somebody else's files are not the agent's logs."""
    other = tmp_path / "other/main/minifram/logs"
    other.mkdir(parents=True)
    (other / "mine.log").write_bytes(b"x" * 1000)
    path = Path(places.bot, "main/minifram/logs")
    while path.name != where:
        path, other = path.parent, other.parent
    plain(tmp_path, "init", "-q", "unused")
    subprocess.run(["rm", "-r", str(path)], check=True)
    path.symlink_to(other)
    found = take(places, OURS, runner_of(start(SPIN)), ())
    assert found.logs == ()
    assert any(words.startswith("logs: ") for words in found.left_out)


def test_too_many_logs_are_said_to_be(places: Paths, start: Start) -> None:
    """There is an end to looking."""
    logs = Path(places.main_checkout, "logs")
    for number in range(growth.LOGS_LOOKED_AT + 5):
        (logs / f"{number}.log").touch()
    found = take(places, OURS, runner_of(start(SPIN)), ())
    assert len(found.logs) == growth.LOGS_LOOKED_AT
    assert any("more than is looked through at once (1,000 entries" in words for words in found.left_out)


def test_room_is_seen_and_the_agents_directory_weighed_when_asked(places: Paths) -> None:
    """A file with two names counts once; one disk is told once."""
    before = take(places, OURS, None, (), weigh=True)
    assert [volume.name for volume in before.volumes] == ["bot"]
    assert before.volumes[0].total > before.volumes[0].free > 0
    Path(places.bot, "large").write_bytes(b"x" * 3_000_000)
    os.link(f"{places.bot}/large", f"{places.bot}/again")
    after = take(places, OURS, None, (), before, weigh=True)
    assert before.weight
    assert after.weight
    assert after.weight.whole
    assert after.weight.files == before.weight.files + 1
    assert 3_000_000 <= after.weight.size - before.weight.size < 3_200_000
    assert take(places, OURS, None, (), after).weight is None


def test_what_lies_too_deep_to_be_weighed_is_said(places: Paths) -> None:
    """The weight is then not whole, and no verdict is built on it."""
    os.makedirs(f"{places.bot}/{'d/' * 80}")
    found = take(places, OURS, None, (), weigh=True)
    assert found.weight
    assert not found.weight.whole


def test_nothing_is_raised_where_nothing_is(tmp_path: Path) -> None:
    """No directory of the agent's exists: all that is said, and no progress is not the same as none seen."""
    nowhere = Paths(*(str(tmp_path / "none" / name) for name in "abcd"))
    found = take(nowhere, OURS, Runner("b" * 32, "main", "c" * 40, 0, 0.0), (), weigh=True)
    assert found.progress is None
    assert (found.volumes, found.logs) == ((), ())
    assert {words.split(":")[0] for words in found.left_out} == {"logs", "weight", "volume", "progress"}


@needs_root
def test_the_cells_files_are_looked_at_with_its_rights(places: Paths, start: Start) -> None:
    """What the cell may not read is not looked into for it; and our rights are ours again afterwards."""
    os.chmod(places.bot, 0o700)
    found = take(places, CELL, runner_of(start(SPIN)), (), weigh=True)
    assert found.logs == ()
    assert any("Permission denied" in words for words in found.left_out)
    assert os.listdir(places.bot) == ["main"]
    libc = ctypes.CDLL(None)
    assert libc.setfsuid(-1) == os.geteuid()
    with contextlib.suppress(OSError):
        os.chmod(places.bot, 0o755)


def test_a_stopped_process_keeps_nobody_waiting(places: Paths, start: Start) -> None:
    """It is seen as it is."""
    cell = start(SPIN)
    os.kill(cell.pid, signal.SIGSTOP)
    begun = time.monotonic()
    found = take(places, OURS, runner_of(cell), ())
    assert cell.pid in {process.pid for process in found.processes}
    assert found.took <= time.monotonic() - begun
