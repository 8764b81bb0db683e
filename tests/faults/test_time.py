"""Time that does not go on as usual: a clock that was set, processes that are stopped for a while, a busy machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.faults.grown import MakeAgent
from tests.keep.supervision.agents import Agent

pytestmark = pytest.mark.heavy
YEAR = 365 * 86400.0
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


@pytest.mark.fault("F05")
def test_a_runner_is_stopped(make_agent: MakeAgent) -> None:
    """Fault: SIGSTOP for a runner; expected: for less than it had promised it costs nothing, and for longer another one
    serves in its place."""
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
    assert "was ended: it was last heard of" in agent.told("main failed (1 in a row)")


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
