"""Disks that are full or cannot be written, and a memory that cannot be read any more."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from infra.keep import watcher_file
from infra.keep.services.processes import is_alive
from infra.keep.watcher_file import SCHEMA, WatcherFile
from infra.shared.signals import SignalName
from tests.faults.disks import fill, read_only, small_disk
from tests.faults.grown import SHORT, MakeAgent, behave, grown, kill_runner, serves_at
from tests.keep.supervision.agents import Agent, within
from tests.shared.rows import each_row

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


@pytest.mark.parametrize("full", [("bot",), pytest.param(("var",), marks=pytest.mark.long), ("bot", "var")])
def test_a_disk_fills_up(cramped: MakeAgent, full: tuple[str, ...]) -> None:
    """Fault: the agent's disk, the keep's, or both are full to the last byte and runners die of it; expected: the
    watcher lives and tries, no version is pinned for it, and main serves and the page tells when there is room."""
    agent, _ = grown(cramped)
    first = agent.serving()
    fillers = [fill(Path(agent.directory, name)) for name in full]
    os.kill(first.runner_pid, signal.SIGKILL)
    if full == ("bot",):
        within(40.0, lambda: agent.state().failures >= 3, "three attempts in vain")
    else:  # nothing can be noted
        agent.told("main failed (1 in a row)")
    assert agent.watcher
    assert agent.watcher.poll() is None
    for filler in fillers:
        filler.unlink()
    second = agent.serving(but=first.boot_id, seconds=60.0)
    assert (second.level, second.version) == ("main", first.version)
    assert (second.pins, second.version_failures) == ((), ())
    agent.told("main failed (1 in a row)")
    behave(agent, "serve()  # another")
    agent.serving(but=second.boot_id)


def test_there_is_room_again(cramped: MakeAgent) -> None:
    """Fault: after many failures in a row, so that the next attempt is a minute away, the agent's disk is full and then
    has room again; expected: main serves within 15 s of that."""
    agent, _ = grown(cramped)
    first = agent.serving()
    agent.stop()
    path = Path(agent.places.watcher_state)
    path.write_bytes(watcher_file.encode(replace(agent.state(), failures=10)))
    filler = fill(Path(agent.directory, "bot"))
    agent.start()
    within(30.0, lambda: agent.state().phase == "waiting", "a launch in vain")
    filler.unlink()
    second = agent.serving(but=first.boot_id, seconds=15.0)
    assert (second.level, second.pins) == ("main", ())


def test_the_keeps_state_cannot_be_written(make_agent: MakeAgent) -> None:
    """Fault: the directory of the watcher's memory becomes read-only; expected: nothing is led that could not be noted,
    the watcher lives, and main serves when it can be written again."""
    agent, _ = grown(make_agent)
    with read_only(agent.places.var):
        first = kill_runner(agent)
        agent.told("main failed (1 in a row)")
        assert agent.watcher
        assert agent.watcher.poll() is None
        assert agent.state().boot_id == first.boot_id, "what is on the disk is old"
        assert not is_alive(first.runner_pid, first.runner_started)
    second = agent.serving(but=first.boot_id, seconds=60.0)
    assert (second.level, second.pins) == ("main", ())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda whole: whole[: len(whole) // 2],
    "empty": lambda _: b"",
    "full of zeroes": lambda whole: b"\0" * len(whole),
    "of another schema": lambda whole: whole.replace(SCHEMA.encode(), b"minifram.watcher/999"),
    "of other types": lambda whole: whole.replace(b'"failures": 0', b'"failures": "none"'),
}


@each_row("damage", DAMAGES)
def test_no_damaged_memory_is_taken_for_one(damage: str) -> None:
    """To the watcher each is the same: a file that cannot be read, whatever is wrong with it."""
    whole = watcher_file.encode(WatcherFile())
    damaged = DAMAGES[damage](whole)
    assert damaged != whole
    with pytest.raises(ValueError, match="watcher state"):
        watcher_file.decode(damaged)


# As the reader tells no difference (above), one goes all the way in each run.
@pytest.mark.parametrize(
    "damage", [pytest.param(each, marks=[pytest.mark.long] if each != "cut in half" else []) for each in DAMAGES]
)
def test_the_memory_cannot_be_read(make_agent: MakeAgent, damage: str) -> None:
    """Fault: watcher.json is damaged while no watcher lives; expected: it is set aside, the PM is told, the old runner
    makes way, a signal is not lost, and the last good main is still known."""
    agent, good = grown(make_agent)
    first = agent.serving()
    agent.branch("better", "serve()")
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    agent.ask(SignalName.BOOTSTRAP, "better")
    path = Path(agent.places.watcher_state)
    damaged = DAMAGES[damage](path.read_bytes())
    path.write_bytes(damaged)
    agent.start()
    agent.serving("better", but=first.boot_id)
    assert Path(f"{path}.unreadable").read_bytes() == damaged
    assert not is_alive(first.runner_pid, first.runner_started), "two runners at once"
    agent.told("its state file could not be read")
    if damage == "cut in half":
        behave(agent, "raise SystemExit(3)")
        serves_at(agent, "last good", good)
