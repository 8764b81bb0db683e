"""Runners that behave as no runner should, and what they leave behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from infra.keep.services.processes import is_alive
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.faults.grown import MakeAgent, behave, grown, kill_runner
from tests.keep.supervision.agents import HOPELESS, within

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
