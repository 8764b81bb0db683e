"""What a runner is given, holds, and leaves in the way: descriptors, locks, files without number, all the memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from infra.shared.signals import SignalName
from tests.faults.grown import MakeAgent, behave, grown
from tests.keep.supervision.agents import within

pytestmark = pytest.mark.heavy


@pytest.mark.fault("F10")
def test_a_runner_is_given_no_descriptor(make_agent: MakeAgent) -> None:
    """Fault: the watcher has sockets, pipes and files open when it starts a runner; expected: the runner has its three
    standard ones and its heart, and none besides; the control: the watcher has more."""
    look = "open('logs/open', 'w').write(' '.join(sorted(os.listdir('/proc/self/fd'))))"
    agent = make_agent()
    (agent.clone / "infra/runner.py").write_text(f"import os\n{look}\n" + (agent.clone / "infra/runner.py").read_text())
    agent.commit("serve()")
    agent.git("push", "-q", "origin", "main")
    watcher = agent.start()
    agent.serving()
    # One more for looking, and one for what is written.
    found = Path(agent.places.main_checkout, "logs/open").read_text().split()
    assert {"0", "1", "2"} < set(found)
    assert len(found) == 6
    assert len(os.listdir(f"/proc/{watcher.pid}/fd")) > 6


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


@pytest.mark.fault("F65")
def test_home_and_the_directory_for_temporary_files_are_missing(make_agent: MakeAgent) -> None:
    """Fault: the watcher is started without HOME, and TMPDIR is a directory that is not there; expected: main serves,
    and a rollback and a report are made."""
    agent = make_agent()
    agent.start(before=["env", "-u", "HOME", "TMPDIR=/nonexistent"])
    first = agent.serving()
    os.kill(first.active.pid, signal.SIGKILL)
    second = agent.serving(but=first.active.boot_id)
    agent.ask(SignalName.ROLLBACK, "main")
    agent.told("rolled back to main")
    agent.serving(but=second.active.boot_id)
