"""Runners that behave as no runner should, what they hold and leave behind; and doors that are not heard of."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import structlog

from infra.keep.services.doors import UNEASY_SECONDS, Service, Services
from infra.keep.services.processes import is_alive
from infra.shared.paths import Paths
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.faults.grown import REAL, MakeAgent, behave, grown, kill_runner
from tests.keep.supervision.agents import HOPELESS, Agent, within

pytestmark = pytest.mark.heavy
DEAF = """for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
for descriptor in (0, 1, 2):
    os.close(descriptor)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open("logs/daemons", "a") as daemons:
                daemons.write(f"{os.getpid()}\\n")
            while True:
                time.sleep(60)
        os._exit(0)
serve()
"""
ENDLESS = """say("BOOTSTRAPPING")
say("SUCCESS")
while True:
    os.write(2, b"y" * 65536)
    time.sleep(0.005)
"""


@pytest.mark.fault("F06", "F07", "F10")
def test_a_runner_that_hears_nothing(make_agent: MakeAgent) -> None:
    """Fault: a runner closes its output, ignores every signal and has daemons in sessions of their own; expected: when
    another is asked for it is killed after the grace, its daemons too, and the other serves."""
    agent, _ = grown(make_agent)
    first = agent.serving()
    behave(agent, DEAF)
    deaf = agent.serving(but=first.active.boot_id)
    pids = within(30.0, lambda: _daemons(agent.places.main_checkout, 3), "three daemons")
    agent.branch("better", "serve()")
    agent.ask(SignalName.BOOTSTRAP, "better")
    state = agent.serving("better")
    assert not is_alive(deaf.active.pid)
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert [boot.outcome for boot in state.boots if boot.boot_id == deaf.active.boot_id] == ["left"]


@pytest.mark.fault("F57", "F58")
def test_an_endless_line(make_agent: MakeAgent) -> None:
    """Fault: a runner writes one line without an end into its error log; expected: the log is cut, then the runner is
    ended and the PM reads why, and the disk holds no more of it than a few times the limit."""
    limits = "{rehearse: false, grace_seconds: 1, boot_seconds: 4, probation_seconds: 0.5, bounds: {sample_seconds: 1}}"
    agent, _ = grown(make_agent, f"timing: {limits}\nlimits: {{log_bytes: 1000000}}\n")
    first = agent.serving()
    behave(agent, ENDLESS)
    wild = agent.serving(but=first.active.boot_id)
    agent.serving(but=wild.active.boot_id, seconds=40.0)
    assert not is_alive(wild.active.pid)
    assert "exceeded a limit" in agent.told("main failed (1 in a row)")
    events = agent.log()
    assert events.index('"remedy": "cut"') < events.index('"remedy": "end"')
    size = sum(path.stat().st_size for path in Path(agent.places.main_checkout, "logs").iterdir())
    assert size < 100_000_000


@pytest.mark.fault("F85")
@pytest.mark.parametrize("many", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_branches(make_agent: MakeAgent, many: int) -> None:
    """Fault: thousands of branches in the shared repository, and as many directories of branches beside main's;
    expected: a killed runner is replaced and signals are carried out as ever."""
    agent, _ = grown(make_agent)
    main = agent.git("ls-remote", "origin", "main").split()[0]
    orders = "".join(f"create refs/heads/idea/{number} {main}\n" for number in range(many))
    Git(agent.places.remote)("update-ref", "--stdin", stdin=orders.encode())
    os.mkdir(f"{agent.places.bot}/idea")
    for number in range(many):
        os.mkdir(f"{agent.places.bot}/idea/{number}")
    before = kill_runner(agent)
    after = agent.serving(but=before.active.boot_id, seconds=60.0)
    assert (after.active.version, after.pins) == (before.active.version, ())
    agent.branch("better", "serve()")
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.serving("better", seconds=60.0)


@pytest.mark.fault("F04")
def test_a_crash_loop_costs_the_watcher_little(make_agent: MakeAgent) -> None:
    """Fault: no version comes up, so that the watcher tries again and again; expected: what it takes of a processor in
    this is a small part of one, since it waits longer each time."""
    agent = make_agent(*HOPELESS)
    watcher = psutil.Process(agent.start().pid)
    within(30.0, lambda: agent.state().failures >= 4, "a wait of seconds")
    began, before = time.monotonic(), sum(watcher.cpu_times()[:2])
    within(60.0, lambda: agent.state().failures >= 6, "two more")
    used = (sum(watcher.cpu_times()[:2]) - before) / (time.monotonic() - began)
    assert used < 0.1
    assert os.listdir(Path(agent.places.main_checkout).parent) == ["minifram"], "none came up, so none left anything"


def _daemons(checkout: str, least: int) -> list[int]:
    path = Path(checkout, "logs/daemons")
    pids = [int(line) for line in path.read_text().split()] if path.exists() else []
    return pids if len(pids) >= least else []


HOLDER = """import fcntl, glob
say("BOOTSTRAPPING")
held = []
for top in (BOT, BOOT["places"]["remote"], BOOT["places"]["run"], BOOT["places"]["var"]):
    for path in glob.glob(f"{top}/**", recursive=True, include_hidden=True):
        for lock in (fcntl.flock, fcntl.lockf):
            try:
                held.append(os.open(path, os.O_RDWR if lock is fcntl.lockf else os.O_RDONLY))
                lock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass
open("logs/held", "w").write(str(len(held)))
say("SUCCESS")
while True:
    time.sleep(60)
"""


@pytest.mark.fault("F30")
@pytest.mark.attack("S28")
def test_locks_that_a_runner_holds(make_agent: MakeAgent) -> None:
    """Fault: a runner holds flock(2) and fcntl(2) locks on every file that it can open, the keep's too; expected: its
    branch serves, another that is asked for does, and reports are made."""
    agent, _ = grown(make_agent)
    agent.branch("holder", HOLDER)
    agent.branch("better", "serve()")
    agent.ask(SignalName.BOOTSTRAP, "holder")
    held = agent.serving("holder")
    assert int(Path(agent.places.checkout("holder"), "logs/held").read_text()) > 100
    agent.ask(SignalName.BOOTSTRAP, "nowhere")
    agent.told("a signal was refused")
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.serving("better", but=held.active.boot_id)


GROUPS = Path("/sys/fs/cgroup/memory")
BYTES = 300 << 20


@contextmanager
def memory_group(name: str) -> Iterator[Path]:
    """A control group with little memory (version 1, which root may divide); skips where there is none."""
    group = GROUPS / name
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group of memory can be made here: {error}")
    try:
        (group / "memory.limit_in_bytes").write_text(str(BYTES))
        with_swap = group / "memory.memsw.limit_in_bytes"
        if with_swap.exists():  # as far as this kernel counts swap
            with_swap.write_text(str(BYTES))
        yield group
    finally:
        within(30.0, lambda: not (group / "cgroup.procs").read_text(), "its processes ended")
        group.rmdir()


EATER = """say("BOOTSTRAPPING")
say("SUCCESS")
while not os.path.exists("logs/eat"):
    time.sleep(0.05)
eaten = []
while True:
    eaten.append(bytearray(os.urandom(1 << 20)))
"""


@pytest.mark.fault("F16")
def test_a_runner_eats_all_memory(make_agent: MakeAgent) -> None:
    """Fault: a runner takes more memory than all of the agent may have; expected: the kernel ends the runner, and not
    watcher or doors, main serves again, and the version is blamed for it."""
    with memory_group(f"minifram-test-{os.getpid()}") as group:
        agent, _ = grown(make_agent)
        first = agent.serving()
        behave(agent, EATER)
        eater = agent.serving(but=first.active.boot_id)
        assert agent.watcher
        ours = psutil.Process(agent.watcher.pid)
        doors = [each.pid for each in ours.children() if each.pid != eater.active.pid]
        for process in (ours, *ours.children(recursive=True)):
            (group / "cgroup.procs").write_text(str(process.pid))
        Path(agent.places.main_checkout, "logs/eat").touch()
        agent.serving(but=eater.active.boot_id)
        assert "SIGKILL" in agent.told("main failed (1 in a row)")
        assert agent.watcher.poll() is None
        assert [pid for pid in doors if not psutil.pid_exists(pid)] == []
        agent.close()


REPLACED_SECONDS = 30.0
BEATING = """
import os, sys, time
from infra.shared import heart
own = heart.inherited(os.environ)
own.beat("serving", float(sys.argv[1]))
time.sleep(60)
"""


def doors_of(agent: Agent) -> dict[str, psutil.Process]:
    assert agent.watcher
    found = {}
    for child in psutil.Process(agent.watcher.pid).children():
        for name in {"infra.git_door", "infra.model_door"} & set(child.cmdline()):
            found[name.removeprefix("infra.")] = child
    return found


@pytest.mark.fault("F80")
@pytest.mark.heavy
def test_doors_are_stopped_and_a_runner_dies_meanwhile(make_agent: MakeAgent) -> None:
    """Fault: SIGSTOP for both doors, then SIGKILL for the runner; expected: within 30 s other doors stand in their
    place and the page says so; main serves again, and nothing is held against its version."""
    agent, _ = grown(make_agent, REAL, body=True)
    doors = doors_of(agent)
    assert len(doors) == 2
    for door in doors.values():
        door.suspend()
    before = kill_runner(agent)
    psutil.wait_procs(list(doors.values()), REPLACED_SECONDS)
    assert [door.is_running() for door in doors.values()] == [False, False]
    after = agent.serving(but=before.active.boot_id, seconds=40.0)
    assert (after.active.level, after.active.version, after.pins) == ("main", before.active.version, ())
    assert [each for each in after.strikes if each.count > 1] == []
    assert "it had promised 25 s" in agent.told("a door did not answer")
    assert len(doors_of(agent)) == 2


@pytest.mark.fault("F80")
def test_a_door_is_replaced_when_its_promise_breaks(tmp_path: Path) -> None:
    """By the watcher's clock alone; what died while it was silent, or just after, may have died of that."""
    service = Service("door", [sys.executable, "-c", BEATING, "25"], beats=True)
    services = Services([service], Paths("/", "/", "/", str(tmp_path)), 1 << 20, structlog.get_logger())
    try:
        services.tend(100.0)
        assert service.heart
        heart = service.heart
        within(30.0, lambda: heart.listen(100.0).beat.doing == "serving", "a beat")
        assert (services.trouble(100.0 + UNEASY_SECONDS, 0.0), services.trouble(107.0, 0.0)) == ("", "door is silent")
        first = service.process
        services.tend(125.0)
        assert (service.process, services.news()) == (first, [])
        services.tend(125.1)
        assert first
        assert first.wait(30) == -9
        services.tend(126.0)
        assert service.process not in (None, first)
        assert "it was last heard of 25 s ago while 'serving'" in services.news()[0]
        assert services.trouble(127.0, 126.5) == "door has just come back"
        assert os.listdir(tmp_path) == ["doors.log"]
    finally:
        services.end(1.0)
