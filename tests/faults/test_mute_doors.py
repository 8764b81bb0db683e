"""Doors that live and are not heard of: they are replaced, and no version is blamed for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest
import structlog

from infra.keep.services.doors import UNEASY_SECONDS, Service, Services
from infra.shared.paths import Paths
from tests.faults.grown import REAL, MakeAgent, grown, kill_runner
from tests.keep.supervision.agents import Agent, within

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
