"""A machine that gives the watcher too little time, processes or disk: it goes on without, and with it again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from infra.keep.services.processes import is_alive
from infra.shared.signals import SignalName
from tests.faults.disks import fill, read_only, small_disk
from tests.faults.grown import SHORT, MakeAgent, behave, grown, kill_runner
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
SPINNERS, HURRY = 4, -10
BEATS = 'say("BOOTSTRAPPING"); say("SUCCESS")\nwhile True:\n    beat(3.0)\n    time.sleep(0.5)'


@pytest.mark.fault("F60")
def test_the_watcher_is_stopped_while_a_runner_serves(make_agent: MakeAgent) -> None:
    """Fault: watcher and runner are stopped for longer than the runner had promised to be silent, as by a pause of the
    container; expected: nobody is ended by the looks that come after."""
    agent = make_agent(BEATS)
    agent.start()
    first = agent.serving()
    runner = psutil.Process(first.active.pid)
    runner.suspend()
    _pause(agent, 6.0)
    runner.resume()
    with pytest.raises(psutil.TimeoutExpired):
        runner.wait(4.0)
    assert agent.serving().active.boot_id == first.active.boot_id
    assert agent.state().failures == 0


@pytest.mark.fault("F05", "F83")
def test_a_runner_is_stopped(make_agent: MakeAgent) -> None:
    """Fault: SIGSTOP for a runner; expected: for less than it had promised it costs nothing, and for longer another one
    serves in its place, and the PM reads why."""
    agent = make_agent(BEATS)
    agent.start()
    first = agent.serving()
    runner = psutil.Process(first.active.pid)
    runner.suspend()
    with pytest.raises(psutil.TimeoutExpired):
        runner.wait(1.0)
    runner.resume()
    with pytest.raises(psutil.TimeoutExpired):
        runner.wait(4.0)
    assert agent.serving().active.boot_id == first.active.boot_id
    runner.suspend()
    agent.serving(but=first.active.boot_id)
    told = agent.told("main failed (1 in a row)")
    assert "was ended: it was last heard of" in told
    assert "it had promised" in told


@contextmanager
def spinners(processor: int) -> Iterator[None]:
    """Processes that take all there is of one processor, before anybody else there."""

    def hurry() -> None:
        os.sched_setaffinity(0, {processor})
        if os.geteuid() == 0:
            os.nice(HURRY)

    words = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(words, preexec_fn=hurry) for _ in range(SPINNERS)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


@pytest.mark.fault("F64")
@pytest.mark.timeout(200)
def test_the_machine_is_busy(make_agent: MakeAgent) -> None:
    """Fault: four processes with more right to its one processor than the agent spin; expected: a boot takes longer and
    serves at the first attempt, and nothing is held against its version."""
    processor = max(os.sched_getaffinity(0))  # one, so that other tests keep the rest of the machine
    agent = make_agent(settings="timing: {rehearse: false, grace_seconds: 5}\n")
    agent.start()
    first = agent.serving()
    assert agent.watcher
    for each in (ours := psutil.Process(agent.watcher.pid), *ours.children(recursive=True)):
        for thread in each.threads():
            os.sched_setaffinity(thread.id, {processor})
    with spinners(processor):
        os.kill(first.active.pid, signal.SIGKILL)
        second = agent.serving(but=first.active.boot_id, seconds=120.0)
    assert second.pins == ()
    assert [boot.outcome for boot in second.boots] == ["died", "success"]


def _pause(agent: Agent, seconds: float) -> None:
    """Stop the watcher alone."""
    assert agent.watcher
    agent.watcher.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        agent.watcher.wait(seconds)
    agent.watcher.send_signal(signal.SIGCONT)


FORKS = "fork,vfork,clone,clone3"
"""System calls, for `strace`."""


def strace(calls: str, fault: str, *words: str) -> list[str]:
    """strace(1) has these calls fail or take long."""
    found = shutil.which("strace")
    assert found, "strace(1), which has calls fail, is not installed: apt-get install strace"
    return [found, "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}", *words]


def injected(calls: str, fault: str) -> list[str]:
    """Words before a command: it is the same process, and these calls of it and its children meet the fault."""
    return strace(calls, fault, "-D", "-f", "--seccomp-bpf")


@contextmanager
def injecting(pid: int, calls: str, fault: str) -> Iterator[None]:
    """The calls of this running process, and of none of its children, meet the fault."""
    tracer = subprocess.Popen(strace(calls, fault, "-p", str(pid)), stderr=subprocess.PIPE, text=True)

    def is_traced() -> bool:
        if tracer.poll() is not None:
            pytest.fail(f"no process can be traced here: {tracer.communicate()[1].strip()}")
        with open(f"/proc/{pid}/status") as file:
            return f"TracerPid:\t{tracer.pid}\n" in file

    within(30.0, is_traced, "the tracer")
    try:
        yield
    finally:
        tracer.terminate()
        tracer.communicate()


ERRORS = {"EAGAIN": "Resource temporarily unavailable", "ENOMEM": "Cannot allocate memory"}


@pytest.mark.fault("F14")
def test_the_watcher_cannot_start_a_process(make_agent: MakeAgent) -> None:
    """Fault: each fork of the watcher fails, with one error and with another, and then its runner is killed; expected:
    it lives, tries and says why, no version is blamed, and main serves when it can again."""
    agent, _ = grown(make_agent)
    assert agent.watcher
    for error, words in ERRORS.items():
        failures = agent.state().failures
        with injecting(agent.watcher.pid, FORKS, f"error={error}"):
            first = kill_runner(agent)
            within(30.0, lambda failures=failures: agent.state().failures >= failures + 2, "launches in vain")  # type: ignore[misc]
            assert agent.watcher.poll() is None
        second = agent.serving(but=first.active.boot_id)
        assert (second.active.level, second.active.version, second.pins) == ("main", first.active.version, ())
        assert words in agent.log()


@pytest.mark.fault("F22")
@pytest.mark.attack("S29")
def test_the_watcher_gets_no_file_events(make_agent: MakeAgent) -> None:
    """Fault: inotify_init fails with EMFILE, as where all instances of the user are taken; expected: one warning, and a
    signal is found by the poll."""
    agent = make_agent()
    agent.branch("better", "serve()")
    agent.start(before=injected("inotify_init,inotify_init1", "error=EMFILE"))
    agent.serving()
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.serving("better")
    assert agent.log().count("watch.unavailable") == 1


@pytest.mark.fault("F63")
@pytest.mark.parametrize("delay", ["500ms", pytest.param("2s", marks=pytest.mark.long)])
def test_the_disk_is_slow(make_agent: MakeAgent, delay: str) -> None:
    """Fault: each fsync of watcher, doors, git and runner takes that long; expected: main serves at the first attempt,
    so does the branch that is asked for, and nothing is held against either."""
    agent = make_agent(settings="timing: {rehearse: false, grace_seconds: 5}\n")
    agent.branch("better", "serve()")
    agent.start(before=injected("fsync,fdatasync", f"delay_enter={delay}"))
    agent.serving(seconds=90.0)
    agent.ask(SignalName.BOOTSTRAP, "better")
    state = agent.serving("better", seconds=90.0)
    assert [boot.outcome for boot in state.boots] == ["left", "success"]
    assert (state.pins, state.strikes, state.troubles) == ((), (), ())


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[MakeAgent]:
    """Makes an agent whose keep's state and whose own tree are each on a small disk."""
    with ExitStack() as disks:
        made: list[Agent] = []

        def make(settings: str = SHORT) -> Agent:
            directory = tmp_path / "agent"
            directory.mkdir()
            made.append(Agent(directory, settings=settings))
            disks.enter_context(small_disk(directory / "var", "8m"))
            disks.enter_context(small_disk(directory / "bot", "24m"))
            return made[0]

        yield make
        for agent in made:
            agent.close()


@pytest.mark.fault("F40")
def test_disks_fill_up(cramped: MakeAgent) -> None:
    """Fault: the agent's disk is full to the last byte when a runner dies, and then the keep's as well; expected: main
    serves again at once, as what runs is the keep's copy; and then the watcher lives and tries, no version is pinned
    for it, and main serves and the page tells when there is room."""
    agent, _ = grown(cramped)
    begun = agent.serving()
    fillers = [fill(Path(agent.directory, "bot"))]
    os.kill(begun.active.pid, signal.SIGKILL)
    first = agent.serving(but=begun.active.boot_id)
    assert (first.active.level, first.active.version, first.pins) == ("main", begun.active.version, ())
    fillers.append(fill(Path(agent.directory, "var")))
    os.kill(first.active.pid, signal.SIGKILL)
    agent.told("main failed (2 in a row)")
    assert agent.watcher
    assert agent.watcher.poll() is None
    for filler in fillers:
        filler.unlink()
    second = agent.serving(but=first.active.boot_id, seconds=60.0)
    assert (second.active.level, second.active.version) == ("main", first.active.version)
    assert (second.pins, second.strikes) == ((), ())
    behave(agent, "serve()  # another")
    agent.serving(but=second.active.boot_id)


@pytest.mark.fault("F42")
def test_the_keeps_state_cannot_be_written(make_agent: MakeAgent) -> None:
    """Fault: the directory of the watcher's memory becomes read-only; expected: nothing is led that could not be noted,
    the watcher lives, and main serves when it can be written again."""
    agent, _ = grown(make_agent)
    with read_only(agent.places.var):
        first = kill_runner(agent)
        agent.told("main failed (1 in a row)")
        assert agent.watcher
        assert agent.watcher.poll() is None
        assert agent.state().active.boot_id == first.active.boot_id, "what is on the disk is old"
        assert not is_alive(first.active.pid)
    second = agent.serving(but=first.active.boot_id, seconds=60.0)
    assert (second.active.level, second.pins) == ("main", ())


@pytest.mark.fault("F81")
def test_the_memory_cannot_be_read(make_agent: MakeAgent) -> None:
    """Fault: watcher.json is damaged while no watcher lives; expected: it is set aside, the PM is told, the old runner
    makes way, a signal is not lost, and the last good main is still known. Each damage: `test_small_words`."""
    agent, good = grown(make_agent)
    first = agent.serving()
    agent.branch("better", "serve()")
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    agent.ask(SignalName.BOOTSTRAP, "better")
    path = Path(agent.places.watcher_state)
    damaged = path.read_bytes()[:500]
    path.write_bytes(damaged)
    agent.start()
    agent.serving("better", but=first.active.boot_id)
    assert Path(f"{path}.unreadable").read_bytes() == damaged
    assert not is_alive(first.active.pid), "two runners at once"
    agent.told("its state file could not be read")
    behave(agent, "raise SystemExit(3)")
    agent.serving(level="last good", commit=good)
