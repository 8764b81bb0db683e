"""The shared repository under faults: pushes that are killed or find no room, maintenance under a fetch, refs and
objects that go bad or away, a disk that turns read-only."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from infra.keep.services.processes import is_alive
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.faults.disks import fill, read_only, small_disk
from tests.faults.grown import MakeAgent, grown, kill_runner
from tests.keep.git_door.world import Server, World
from tests.keep.supervision.agents import within

pytestmark = pytest.mark.heavy
Spoilt = Callable[[str], AbstractContextManager[None]]


def fsck(repository: str) -> None:
    Git(repository)("fsck", "--strict", "--no-dangling")


def content(directory: str) -> set[str]:
    return {str(path) for path in Path(directory).rglob("*") if path.name != "filler"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "world")
    yield made
    made.end()


@pytest.mark.parametrize(
    "lacks",
    [pytest.param("space", marks=pytest.mark.fault("F39")), pytest.param("inodes", marks=pytest.mark.fault("F41"))],
)
def test_a_push_finds_no_room(tmp_path: Path, lacks: str) -> None:
    """Fault: the repository's disk has no space, or no inode, left when the agent pushes; expected: the push is
    refused, no ref moves, nothing of it stays behind, and it lands once there is room."""
    world = World(tmp_path / "world")
    aside = f"{world.places.remote}.aside"
    os.rename(world.places.remote, aside)
    with small_disk(Path(world.places.remote), "4m" if lacks == "space" else "4m,nr_inodes=400") as disk:
        subprocess.run(["cp", "--archive", f"{aside}/.", str(disk)], check=True)
        before, main = content(str(disk)), world.main
        work = world.agent.commit({f"src/{number}.py": os.urandom(2000).hex() for number in range(150)})
        fillers = [fill(disk)] if lacks == "space" else _fill_inodes(disk)
        world.agent.refused("main", "main:better")
        for filler in fillers:
            filler.unlink()
        assert (world.main, world.ref("refs/heads/better")) == (main, None)
        assert content(str(disk)) == before
        fsck(str(disk))
        world.agent.push("main")
        assert world.main == work


def _fill_inodes(disk: Path) -> list[Path]:
    made: list[Path] = []
    while os.statvfs(disk).f_favail > 0:
        made.append(disk / f"filler{len(made)}")
        made[-1].touch()
    return made


@pytest.mark.fault("F02")
@pytest.mark.parametrize("pushes", [6, pytest.param(24, marks=pytest.mark.long)])
def test_a_push_is_killed(server: Server, pushes: int) -> None:
    """Fault: SIGKILL at random moments for a push of the agent's and all that serves it; expected: each time the
    repository is whole, main is as it was or as it was pushed, and the next push lands."""
    world, chance = server.world, random.Random(2)
    landed = 0
    for number in range(pushes):
        before, work = world.main, world.agent.commit({f"src/{number}.py": os.urandom(3000).hex()})
        push = subprocess.Popen(
            ["git", "push", "--quiet", "origin", "main"],
            cwd=world.agent.path,
            env=world.agent.env,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(chance.uniform(0.0, 0.25))  # the moment is the test
        os.killpg(push.pid, signal.SIGKILL)
        push.wait()
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
        assert world.main in (before, work)
        landed += world.main == work
        fsck(world.places.remote)
        for lock in ("refs/heads/main", "HEAD"):  # as the watcher does after a while
            Path(world.places.remote, f"{lock}.lock").unlink(missing_ok=True)
        server.start([*server.process.args])  # type: ignore[misc]
    assert landed < pushes, "the control: some were cut short"
    world.agent.push("main")
    assert world.main == world.agent.head


@contextmanager
def without_objects(remote: str) -> Iterator[None]:
    objects = Path(remote, "objects")
    away = objects.rename(objects.with_name("away"))
    yield
    away.rename(objects)


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param(read_only, marks=pytest.mark.fault("F42")),
        pytest.param(without_objects, marks=pytest.mark.fault("F37")),
    ],
)
def test_the_repository_is_spoilt_while_a_runner_serves(make_agent: MakeAgent, spoilt: Spoilt) -> None:
    """Fault: its disk turns read-only, or all its objects are gone, and a signal is refused; expected: the runner goes
    on, the watcher lives and keeps what is to be told, and tells it, and carries out what is asked for, afterwards."""
    agent, _ = grown(make_agent)
    agent.branch("better", "serve()")
    first = agent.serving()
    with spoilt(agent.places.remote):
        Path(agent.places.signals, "bootstrap").write_text("-b\n")
        within(30.0, lambda: "report.failed" in agent.log(), "a failed report")
        assert agent.watcher
        assert agent.watcher.poll() is None
        assert is_alive(first.active.pid)
        assert agent.state().active.boot_id == first.active.boot_id
    agent.told("a signal was refused")
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.serving("better")


REFS = {"empty": "", "zeroes": "\0" * 41, "garbage": "not a commit\n", "half": "0123456789abcdef"}


@pytest.mark.fault("F34")
def test_branches_have_damaged_refs(make_agent: MakeAgent) -> None:
    """Fault: the refs of branches are damaged in the shared repository, each in another way, and main's runner is
    killed; expected: main serves, the branches count as missing, and reports and signals work."""
    agent, _ = grown(make_agent)
    agent.branch("better", "serve()")
    agent.git("push", "-q", "origin", *(f"main:{name}" for name in REFS))
    for name, damage in REFS.items():
        Path(agent.places.remote, "refs/heads", name).write_text(damage)
    before = kill_runner(agent)
    state = agent.serving(but=before.active.boot_id)
    assert (state.active.level, state.active.version, state.pins) == ("main", before.active.version, ())
    for name in REFS:
        agent.ask(SignalName.ROLLBACK, name)
        agent.told(f"rollback to {name} failed")
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.serving("better")


def _another_bit(pack: Path) -> None:
    whole = pack.read_bytes()
    middle = len(whole) // 2
    pack.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])


def _half_of_the_index(pack: Path) -> None:
    index = pack.with_suffix(".idx")
    index.chmod(0o600)
    os.truncate(index, index.stat().st_size // 2)


PACKS = {"one": _another_bit, "two": _half_of_the_index}


@pytest.mark.fault("F25", "F36", "F46")
def test_a_branch_s_pack_is_damaged_and_the_branch_that_runs_is_deleted(make_agent: MakeAgent) -> None:
    """Fault: a bit of the pack in a branch's clone is another, or the pack's index is cut, when it is asked for;
    expected: the one is led, as its code comes from elsewhere; git finds no commit in the other, which is refused.
    Then the PM deletes the one, and what has no clone is asked for: its runner goes on; when it dies main serves."""
    agent, _ = grown(make_agent)
    for name, damage in PACKS.items():
        agent.branch(name, f"serve()  # {name}")
        clone = agent.places.checkout(name)
        Git(clone)("repack", "-a", "-d", "-q")
        pack = next(Path(clone, ".git/objects/pack").glob("*.pack"))
        pack.chmod(0o600)
        damage(pack)
    agent.ask(SignalName.BOOTSTRAP, "one")
    one = agent.serving("one")
    Git(agent.places.remote)("branch", "-D", "one")
    agent.ask(SignalName.BOOTSTRAP, "nowhere")
    assert "a signal was refused" in agent.told("no clone of nowhere")  # so the watcher has looked around since
    assert (agent.state().active.boot_id, agent.state().request) == (one.active.boot_id, None)
    assert is_alive(one.active.pid)
    os.kill(one.active.pid, signal.SIGKILL)
    state = agent.serving("main", but=one.active.boot_id)
    assert (state.active.level, state.pins) == ("main", ())
    agent.ask(SignalName.BOOTSTRAP, "two")
    assert "git cannot read the clone of two" in agent.told("two failed, main is active again")
    agent.serving("main")
