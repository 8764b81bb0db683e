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
from tests.faults.grown import MakeAgent, behave, grown, kill_runner
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
SPINNERS, HURRY = 4, -10
BEATS = 'say("BOOTSTRAPPING"); say("SUCCESS")\nwhile True:\n    beat(3.0)\n    time.sleep(0.5)'


@pytest.mark.fault("F05", "F60", "F83")
def test_runner_and_watcher_are_stopped(make_agent: MakeAgent) -> None:
    """Fault: SIGSTOP for a runner, for less than it had promised to be silent; then for runner and watcher for longer,
    as by a pause of the container; then for the runner alone; expected: neither of the first two costs anything, in the
    looks that come after either, and after the last another one serves in its place, and the PM reads why."""
    agent = make_agent(BEATS)
    watcher = agent.start()
    first = agent.serving()
    runner = psutil.Process(first.active.pid)
    for seconds, stopped in ((1.0, [runner]), (6.0, [runner, psutil.Process(watcher.pid)])):
        for each in stopped:
            each.suspend()
        with pytest.raises(subprocess.TimeoutExpired):
            watcher.wait(seconds)
        for each in stopped:
            each.resume()
        with pytest.raises(psutil.TimeoutExpired):
            runner.wait(4.0)
        assert agent.serving().active.boot_id == first.active.boot_id
        assert agent.state().failures == 0
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


NO_INOTIFY = ("inotify_init,inotify_init1", "error=EMFILE")
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


@pytest.mark.parametrize(
    ("calls", "fault"),
    [
        pytest.param(*NO_INOTIFY, marks=[pytest.mark.fault("F22"), pytest.mark.attack("S29")]),
        pytest.param("fsync,fdatasync", "delay_enter=500ms", marks=pytest.mark.fault("F63")),
        pytest.param("fsync,fdatasync", "delay_enter=2s", marks=pytest.mark.long),
    ],
)
def test_calls_fail_or_are_slow_all_the_time(make_agent: MakeAgent, calls: str, fault: str) -> None:
    """Fault: all instances of inotify are taken; or each fsync of watcher, doors, git and runner takes long; expected:
    main serves at the first attempt, a signal is found by the poll, with one warning, the branch that is asked for
    serves, and nothing is held against either."""
    agent = make_agent(settings="timing: {rehearse: false, grace_seconds: 5}\n")
    agent.branch("better", "serve()")
    agent.start(before=injected(calls, fault))
    agent.serving(seconds=90.0)
    agent.ask(SignalName.BOOTSTRAP, "better")
    state = agent.serving("better", seconds=90.0)
    assert [boot.outcome for boot in state.boots] == ["left", "success"]
    assert (state.pins, state.strikes, state.troubles) == ((), (), ())
    assert agent.log().count("watch.unavailable") == ("inotify" in calls)


@pytest.mark.fault("F40")
def test_disks_fill_up(make_agent: MakeAgent) -> None:
    """Fault: the agent's disk is full to the last byte when a runner dies, and then the keep's as well; expected: main
    serves again at once, as what runs is the keep's copy; and then the watcher lives and tries, no version is pinned
    for it, and main serves and the page tells when there is room."""
    with ExitStack() as disks:

        def cramped(settings: str) -> Agent:
            made = make_agent(settings=settings)
            for name, size in (("var", "8m"), ("bot", "24m")):
                disks.enter_context(small_disk(made.directory / name, size))
            return made

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
        agent.close()


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
