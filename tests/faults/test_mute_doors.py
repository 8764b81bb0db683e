"""Doors that live and do not answer: they are replaced, and no version is blamed for them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import structlog

from infra.keep.git_door import setup
from infra.keep.services import health_checks
from infra.keep.services.services import Service, Services
from infra.shared.paths import Paths
from tests.faults.grown import REAL, MakeAgent, grown, kill_runner
from tests.keep.git_door.git_server import lasting_port
from tests.keep.git_door.world import BLOB_BYTES, World
from tests.keep.supervision.agents import Agent, within

heavy = pytest.mark.heavy
REPLACED_SECONDS = 10.0


def door_of(agent: Agent, name: str, but: int = 0) -> psutil.Process | None:
    assert agent.watcher
    for child in psutil.Process(agent.watcher.pid).children():
        with contextlib.suppress(psutil.Error):
            if child.pid != but and f"infra.{name}" in child.cmdline():
                return child
    return None


@heavy
@pytest.mark.parametrize("name", ["git_door", "model_door"])
def test_a_stopped_door(make_agent: MakeAgent, name: str) -> None:
    """Fault: SIGSTOP for a door while a runner serves; expected: within 10 s another door stands in its place, the
    page says so, and the runner goes on."""
    agent, _ = grown(make_agent)
    first = agent.serving()
    within(30.0, lambda: os.path.exists(agent.places.model_socket) or None, "the model door open")
    door = within(30.0, lambda: door_of(agent, name), "the door")
    door.suspend()
    within(REPLACED_SECONDS, lambda: door_of(agent, name, but=door.pid), "another door")
    assert not door.is_running()
    assert f"The {name} (process {door.pid}) was stopped (SIGSTOP), and is replaced." in agent.told("a door did not")
    assert agent.serving().boot_id == first.boot_id


@heavy
def test_a_runner_dies_while_both_doors_are_stopped(make_agent: MakeAgent) -> None:
    """Fault: SIGSTOP for both doors, then SIGKILL for the runner; expected: main serves again as soon as the doors do,
    and nothing is held against its version."""
    agent, _ = grown(make_agent, REAL, body=True)
    doors = [door for name in ("git_door", "model_door") if (door := door_of(agent, name))]
    assert len(doors) == 2
    for door in doors:
        door.suspend()
    before = kill_runner(agent)
    after = agent.serving(but=before.boot_id, seconds=40.0)
    assert (after.level, after.version) == ("main", before.version)
    assert (after.pins, [each for each in after.version_failures if each.count > 1], after.safe_mode_failures) == (
        (),
        [],
        0,
    )
    assert [door.is_running() for door in doors] == [False, False]


class Played:
    """Doors that a test looks after itself, as often as a watcher would."""

    def __init__(self, service: Service, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        places = Paths(bot="/", remote="/", run="/", var=str(directory))
        self.service = service
        self.services = Services([service], places, 1 << 20, structlog.get_logger())

    def look(self) -> None:
        self.services.tend(time.monotonic())

    def answers(self) -> bool:
        self.look()
        return bool(self.service.check and self.service.check.answered)

    def pid(self) -> int:
        self.look()
        return self.service.process.pid if self.service.process else 0


@pytest.fixture
def git_daemon(tmp_path: Path) -> Iterator[Played]:
    world = World(tmp_path / "world", by_daemon=True)
    port = lasting_port()
    service = Service(
        "git_daemon",
        setup.daemon_command(world.places, port),
        port=port,
        question=health_checks.of_git_daemon(f"/{os.path.basename(world.places.remote)}"),
        output="git_daemon.log",
        env=setup.daemon_environment(world.places, BLOB_BYTES),
    )
    played = Played(service, tmp_path / "var")
    yield played
    played.services.end(1.0)


def test_a_git_daemon_is_asked(git_daemon: Played, tmp_path: Path) -> None:
    """The daemon answers the watcher's question, and finds nothing in it that is worth a line in its log; one that is
    stopped does not answer and is replaced before anything is launched."""
    within(30.0, git_daemon.answers, "an answer")
    git_daemon.services.await_ports(5.0)
    log = (tmp_path / "var/git_daemon.log").read_text()
    assert "hung up" not in log
    assert "fatal" not in log
    first = git_daemon.pid()
    os.kill(first, signal.SIGSTOP)
    git_daemon.services.await_ports(REPLACED_SECONDS)
    assert git_daemon.pid() != first
    now = time.monotonic()
    assert git_daemon.services.trouble(now, now) == "git_daemon has just come back"


MUTE = """
import socket, sys
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen()
first, _ = door.accept()
first.sendall(b'{"answer":{}}\\n')
kept = []
while True:
    kept.append(door.accept())
"""


@heavy
def test_a_door_that_sleeps_and_does_not_answer_is_mute(tmp_path: Path) -> None:
    """Fault: a door takes connections and answers no more; expected: it is replaced within 10 s, and whatever died
    meanwhile is not a version's fault."""
    path = str(tmp_path / "s")
    played = Played(
        Service("door", [sys.executable, "-c", MUTE, path], path, question=health_checks.OF_DOOR), tmp_path / "var"
    )
    try:
        within(30.0, played.answers, "an answer")
        began, first = time.monotonic(), played.pid()
        within(30.0, lambda: played.pid() not in (0, first), "another process")
        took = time.monotonic() - began
        assert took < REPLACED_SECONDS
        assert played.services.trouble(began + took, began)
        assert "did not answer for" in played.services.news()[0]
    finally:
        played.services.end(1.0)


def test_a_question_waits_for_nobody(tmp_path: Path) -> None:
    """A door whose queue is full, one that says nothing and one that closes: each look is over at once, and only the
    last shows that somebody is there."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        server.bind(path)
        server.listen(0)
        first.connect(path)
        beat = health_checks.HealthCheck(path, health_checks.OF_DOOR)
        began = time.monotonic()
        assert [beat.look(at) for at in (1.0, 2.0, 3.0)] == [0.0, 1.0, 2.0]
        server.accept()[0].close()
        assert beat.look(4.0) == 3.0
        server.accept()[0].close()
        assert beat.look(5.0) == 0.0
        assert time.monotonic() - began < 1.0
        assert not beat.answered
        beat.close()


def test_a_busy_door_is_not_mute() -> None:
    """A process that runs, or would if the machine let it, is told from one that sleeps."""
    spins = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    sleeps = subprocess.Popen(["sleep", "60"])
    try:
        within(30.0, lambda: health_checks.is_busy(spins.pid), "a busy process")
        within(30.0, lambda: not health_checks.is_busy(sleeps.pid), "a sleeping process")
    finally:
        for each in (spins, sleeps):
            each.kill()
            each.wait()
