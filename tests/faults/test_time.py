"""Time that does not go on as usual: a clock that was set, processes that are stopped for a while, a busy machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from infra.keep import watcher_file
from infra.keep.services.processes import is_alive
from tests.faults.grown import MakeAgent, behave, grown, kill_runner
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
YEAR = 365 * 86400.0
SPINNERS, HURRY = 4, -10


@pytest.mark.parametrize("years", [-1, pytest.param(1, marks=pytest.mark.long)])
def test_the_clock_was_set_between_two_watchers(make_agent: MakeAgent, years: int) -> None:
    """Fault: the wall's clock is set by a year while no watcher lives, so that the runner's start time in the memory is
    another; expected: the next watcher knows its runner by the boot, goes on with it and notices its end."""
    agent, _ = grown(make_agent)
    first = agent.serving()
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    path = Path(agent.places.watcher_state)
    state = agent.state()
    path.write_bytes(watcher_file.encode(replace(state, runner_started=state.runner_started + years * YEAR)))
    begun = agent.log().count("watcher.started")
    agent.start()
    within(30.0, lambda: agent.log().count("watcher.started") > begun, "another watcher")
    assert is_alive(first.runner_pid, first.runner_started)
    assert agent.serving().boot_id == first.boot_id
    before = kill_runner(agent)
    after = agent.serving(but=before.boot_id)
    assert (after.version, after.pins) == (first.version, ())


def test_the_watcher_is_stopped_while_a_runner_serves(make_agent: MakeAgent) -> None:
    """Fault: the watcher is stopped for longer than a runner may take to answer, the runner is not; expected: nobody is
    ended by the looks that come after."""
    agent, _ = grown(make_agent)
    first = agent.serving()
    _pause(agent, 6.0)
    for _ in range(2):
        _another_question(agent)
    assert agent.serving().boot_id == first.boot_id
    assert agent.state().failures == 0


def test_the_watcher_is_stopped_while_a_runner_boots(make_agent: MakeAgent) -> None:
    """Fault: the watcher is stopped during a boot, for longer than the boot may take; expected: a runner that said
    SUCCESS meanwhile is asked and serves, and is not ended for its watcher's absence."""
    agent, _ = grown(make_agent)
    launched = agent.log().count("runner.launched")
    behave(agent, 'say("BOOTSTRAPPING"); time.sleep(1.0); say("SUCCESS")\nwhile True: time.sleep(60)')
    within(30.0, lambda: agent.log().count("runner.launched") > launched, "a launch")
    _pause(agent, 6.0)
    state = agent.serving(but=agent.state().boots[-2].id if len(agent.state().boots) > 1 else "")
    assert agent.log().count("runner.launched") == launched + 1
    assert (state.failures, state.version_failures) == (0, ())


def test_a_runner_is_stopped_for_a_while(make_agent: MakeAgent) -> None:
    """Fault: SIGSTOP for a runner, until it has missed one answer, and then for good; expected: the first costs it
    nothing, and the second is seen twice and ends it."""
    agent, _ = grown(make_agent)
    first = agent.serving()
    runner = psutil.Process(first.runner_pid)
    runner.suspend()
    missed = within(30.0, lambda: agent.log().count("runner.unwell"), "a missed answer")
    runner.resume()
    _another_question(agent)
    assert agent.serving().boot_id == first.boot_id
    assert agent.log().count("runner.unwell") == missed
    runner.suspend()
    agent.serving(but=first.boot_id)
    assert "was not well, twice in a row: no answer in time" in agent.told("main failed (1 in a row)")


def test_a_stopped_runner_is_seen_in_the_process_table(make_agent: MakeAgent) -> None:
    """Fault: SIGSTOP for a runner, at the pace that every agent has; expected: another one serves within 30 s, and the
    page says that it was stopped."""
    agent = make_agent()
    agent.start()
    first = agent.serving()
    psutil.Process(first.runner_pid).suspend()
    agent.serving(but=first.boot_id, seconds=30.0)
    assert "was ended: it was stopped (SIGSTOP)" in agent.told("main failed (1 in a row)")


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
        os.kill(first.runner_pid, signal.SIGKILL)
        second = agent.serving(but=first.boot_id, seconds=120.0)
    assert (second.pins, second.safe_mode_failures) == ((), 0)
    assert [boot.outcome for boot in second.boots] == ["died", "success"]


def _pause(agent: Agent, seconds: float) -> None:
    """Stop the watcher alone."""
    assert agent.watcher
    agent.watcher.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        agent.watcher.wait(seconds)
    agent.watcher.send_signal(signal.SIGCONT)


def _another_question(agent: Agent) -> None:
    """Through the doors: what is written for it is another each time."""
    probe = Path(agent.places.probe)
    before = probe.read_text()
    within(30.0, lambda: probe.read_text() != before, "another question")
