"""The power is cut as soon as somebody was answered: what was answered is there when it comes back.

Nothing is synced between the deed and the cut but by who did it; who asks for it lies on another disk, as their own
syncing would take what is tested along."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from infra.keep.git_door import rollback
from infra.keep.repository import bare_tip
from infra.keep.supervision.main import SharedMain
from infra.keep.watcher_file import Report, Version
from infra.shared.repository.git import Git
from tests.faults.disks import Ext4
from tests.host.desk import Desk
from tests.keep.git_door.world import Server, World

pytestmark = pytest.mark.heavy
BRANCHES = ("main", "new", "a/b/c")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    made = Ext4(tmp_path, megabytes=160)
    made.mount()
    yield made
    made.unmount()


def cut(disk: Ext4) -> None:
    """And mount again what is left."""
    disk.cut_power()
    disk.mount()


@pytest.fixture
def desk(disk: Ext4, tmp_path: Path) -> Desk:
    """A PM whose agents lie on the disk; the project and the PM's clones do not."""
    (tmp_path / "d").mkdir()
    desk = Desk(tmp_path / "d")
    desk.write_project()
    desk.environ |= {f"XDG_{name}_HOME": f"{disk.path}/new/{name}" for name in ("DATA", "STATE", "CONFIG")}
    return desk


@pytest.fixture
def agent(desk: Desk) -> Desk:
    """The same with an agent that is on the disk."""
    desk.done("init", "--sandbox", "process")
    os.sync()
    return desk


def test_an_agent_that_was_made_is_there(desk: Desk, disk: Ext4) -> None:
    """Fault: the power is cut when init has answered; expected: the agent and the directories above are there, nothing
    needs mending, and it starts."""
    desk.done("init", "--sandbox", "process")
    cut(disk)
    found = desk.run("doctor", "--json").json["findings"]
    assert [each for each in found if each["check"] != "disk"] == []
    assert desk.git()("fsck", "--strict", "--no-dangling") == ""
    assert desk.call("up").code == 0
    assert desk.call("down").code == 0


def test_an_agent_that_began_with_a_backup_is_there(agent: Desk, disk: Ext4) -> None:
    """Fault: the power is cut when backup, and then init, have answered; expected: archive and agent are there and
    whole."""
    archive = str(disk.path / "agent.tar")
    agent.done("backup", archive)
    cut(disk)
    agent.done("init", "--sandbox", "process", "--agent", "b", "--from", archive)
    cut(disk)
    assert agent.main("b") == agent.main()
    assert agent.git("b")("fsck", "--strict") == ""
    assert os.path.getsize(agent.home("b").settings)


class Clone:
    """The PM's, on another disk."""

    def __init__(self, desk: Desk) -> None:
        self._env = desk.environ
        self.path = desk.root / "clone"
        self._git("clone", "--quiet", desk.home().remote, str(self.path), cwd=desk.root)

    def _git(self, *words: str, cwd: Path | None = None) -> str:
        identity = ("-c", "user.name=PM", "-c", "user.email=pm@example.invalid")
        done = subprocess.run(
            ["git", *identity, *words], cwd=cwd or self.path, env=self._env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def push(self, branch: str) -> str:
        self._git("commit", "--quiet", "--allow-empty", "-m", f"to {branch}")
        self._git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return self._git("rev-parse", "HEAD")


def _at(git: Git, ref: str) -> str:
    return git("for-each-ref", "--format=%(objectname)", ref)


@pytest.mark.fault("F32")
@pytest.mark.parametrize("branch", BRANCHES)
def test_a_push_by_path_is_there(agent: Desk, disk: Ext4, branch: str) -> None:
    """Fault: the power is cut when a push by path was answered; expected: it is there, also on a branch of
    new directories."""
    pushed = Clone(agent).push(branch)
    cut(disk)
    assert _at(agent.git(), f"refs/heads/{branch}") == pushed
    assert agent.git()("fsck", "--strict", "--no-dangling") == ""


@pytest.mark.fault("F32")
def test_without_the_hook_a_push_is_lost(agent: Desk, disk: Ext4) -> None:
    """Fault: the same without the hook; expected: the push is lost, the control of what is above."""
    os.unlink(f"{agent.home().remote}/hooks/{bare_tip.HOOK}")
    os.sync()
    pushed = Clone(agent).push("main")
    assert _at(agent.git(), "refs/heads/main") == pushed
    cut(disk)
    assert _at(agent.git(), "refs/heads/main") not in ("", pushed)


@pytest.fixture(params=["git:// door", "door by path"])
def world(disk: Ext4, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """Of the agent and its door, only the repository lies on the disk."""
    server = Server(tmp_path / "world") if request.param == "git:// door" else None
    world = server.world if server else World(tmp_path / "world")
    shutil.move(world.places.remote, disk.path / "remote.git")
    os.symlink(disk.path / "remote.git", world.places.remote)
    os.sync()
    yield world
    if server:
        server.end()


@pytest.mark.fault("F32")
@pytest.mark.parametrize("branch", BRANCHES)
def test_a_push_through_the_door_is_there(world: World, disk: Ext4, branch: str) -> None:
    """Fault: the power is cut when a push through the git door was answered; expected: it is there."""
    pushed = world.agent.commit({"src/b.py": "b = 1\n"})
    world.agent.push(f"HEAD:refs/heads/{branch}")
    cut(disk)
    assert world.ref(f"refs/heads/{branch}") == pushed


def _keep(desk: Desk) -> None:
    main = SharedMain(desk.home().places.remote, structlog.get_logger())
    main.look()
    main.settle((Version(desk.main(), "0123456789abcdef"),))


def _report(desk: Desk) -> None:
    rollback.report(desk.home().places, Report(id="1", at="2026-01-31T10:42:12.345Z", title="t", text="seen"))


ACTS: dict[str, Callable[[Desk], object]] = {
    "tell": lambda desk: desk.done("tell", "do this"),
    "merge": lambda desk: desk.done("merge", "improve@TIP", "--unexamined"),
    "reject": lambda desk: desk.done("reject", "improve"),
    "rollback": lambda desk: desk.done("rollback", "main~1"),
    "a report of the watcher's": _report,
    "a version that is known as good": _keep,
}


@pytest.mark.fault("F32")
@pytest.mark.parametrize("act", ACTS)
def test_what_the_commands_and_the_watcher_did_is_there(agent: Desk, disk: Ext4, act: str) -> None:
    """Fault: the power is cut when a command or the watcher has moved refs; expected: every ref is as it was
    when they had answered, and what it leads to is whole."""
    agent.branch("later", {"src/l.py": "1\n"})
    agent.git()("update-ref", "refs/heads/main", "refs/heads/later")
    agent.branch("improve", {"src/a.py": "1\n"})
    os.sync()
    before = agent.git()("for-each-ref")
    ACTS[act](agent)
    answered = agent.git()("for-each-ref")
    assert answered != before
    cut(disk)
    assert agent.git()("for-each-ref") == answered
    assert agent.git()("fsck", "--strict", "--no-dangling") == ""
