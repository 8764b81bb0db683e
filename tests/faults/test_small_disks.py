"""Disks that are full or cannot be written, and a memory that cannot be read any more."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra.keep.services.processes import is_alive
from infra.shared.signals import SignalName
from tests.faults.disks import fill, read_only, small_disk
from tests.faults.grown import SHORT, MakeAgent, behave, grown, kill_runner, serves_at
from tests.keep.supervision.agents import Agent

pytestmark = pytest.mark.heavy


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
def test_a_disk_fills_up(cramped: MakeAgent) -> None:
    """Fault: the keep's disk and the agent's are full to the last byte and runners die of it; expected: the
    watcher lives and tries, no version is pinned for it, and main serves and the page tells when there is room."""
    agent, _ = grown(cramped)
    first = agent.serving()
    fillers = [fill(Path(agent.directory, name)) for name in ("bot", "var")]
    os.kill(first.active.pid, signal.SIGKILL)
    agent.told("main failed (1 in a row)")
    assert agent.watcher
    assert agent.watcher.poll() is None
    for filler in fillers:
        filler.unlink()
    second = agent.serving(but=first.active.boot_id, seconds=60.0)
    assert (second.active.level, second.active.version) == ("main", first.active.version)
    assert (second.pins, second.strikes) == ((), ())
    agent.told("main failed (1 in a row)")
    behave(agent, "serve()  # another")
    agent.serving(but=second.active.boot_id)


@pytest.mark.fault("F40")
def test_main_starts_on_a_full_disk(cramped: MakeAgent) -> None:
    """Fault: the agent's disk alone is full when its runner dies; expected: main serves again at once, as what runs is
    the keep's copy and its clone needs nothing."""
    agent, _ = grown(cramped)
    first = agent.serving()
    fill(Path(agent.directory, "bot"))
    os.kill(first.active.pid, signal.SIGKILL)
    second = agent.serving(but=first.active.boot_id)
    assert (second.active.level, second.active.version, second.pins) == ("main", first.active.version, ())


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
    serves_at(agent, "last good", good)
