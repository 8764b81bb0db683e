"""The power is cut, as an ext4 that stops: in the middle of what is under way; and as soon as somebody was answered,
where nothing is synced but by who did it, and who asks for it lies on another disk."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import structlog

from infra.keep.git_door import rollback
from infra.keep.repository import bare_tip
from infra.keep.repository.bare_tip import RETRY_REF
from infra.keep.supervision.main import SharedMain
from infra.keep.watcher_file import Report, State, Version
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.faults.disks import Ext4
from tests.faults.grown import change, grown
from tests.faults.stopping_watcher import PROGRAM, STOPS_AT
from tests.host.desk import Desk
from tests.keep.git_door.world import Clone, Server, World
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy


def _serves(agent: Agent, known: set[str]) -> State | None:
    state = agent.state()
    return state if state.phase == "running" and state.active.boot_id not in known else None


def _forgiven(agent: Agent, state: State) -> None:
    """A boot that was cut short is a failed boot: a branch that booted is pinned, main is not. The PM lets it be tried
    again."""
    assert [pin.branch for pin in state.pins if pin.branch == "main"] == []
    Git(agent.places.remote)("update-ref", RETRY_REF, "refs/heads/main")
    within(30.0, lambda: not agent.state().pins, "no pins")


def send(agent: Agent, text: str) -> None:
    """A signal to bootstrap, durably: what the sender itself lost is not the watcher's."""
    directory = Path(agent.places.signals)
    half = directory / ".half"
    with half.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.rename(directory / "bootstrap")
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def is_taken(agent: Agent) -> bool:
    """The watcher has decided upon it, remembered it, and deleted the file."""
    return not any(os.path.lexists(f"{agent.places.signals}/{name}") for name in ("bootstrap", ".claimed-bootstrap"))


STEPS = {
    "signal written": "better",
    "claimed": "better",
    "attempt noted": "main",
    "clone made": "main",
    "launched": "main",
    "bootstrapping": "main",
    "success": "main",
    "known as good": "main",
    "claim removed": "main",
}
"""In the life of a version, P1 to P9 of spec/FAULTS.md; and who serves after the next start. A branch whose
attempt was noted has had it."""
HELD = """def hold(step):
    while os.path.exists(f"{BOT}/hold-{step}"):
        time.sleep(0.02)
hold("launched")
say("BOOTSTRAPPING")
hold("bootstrapping")
say("SUCCESS")
while True:
    time.sleep(60)
"""
PATIENT = "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 15, probation_seconds: 0.5, hops: 1000}\n"


@pytest.fixture
def steady(disk: Ext4) -> Iterator[Agent]:
    """On the disk, with a branch whose boot waits where it is told to."""
    directory = disk.path / "agent"
    directory.mkdir()
    agent, _ = grown(lambda settings: Agent(directory, settings=settings), PATIENT)
    agent.branch("better", HELD)
    yield agent
    agent.close()


def _is_stopped(agent: Agent) -> bool:
    assert agent.watcher
    return psutil.Process(agent.watcher.pid).status() == psutil.STATUS_STOPPED


def _reach(agent: Agent, step: str) -> None:
    """Have the watcher, or its runner, be right behind this step."""
    assert agent.watcher
    state = agent.state
    holds = Path(agent.places.bot, f"hold-{step}")
    match step:
        case "signal written":
            agent.watcher.send_signal(signal.SIGSTOP)
            send(agent, "better\n")
        case "claimed" | "attempt noted":
            send(agent, "better\n")
            within(30.0, lambda: _is_stopped(agent), step)
        case "clone made":
            shutil.rmtree(agent.places.main_checkout)
            os.kill(state().active.pid, signal.SIGKILL)
            within(30.0, lambda: _is_stopped(agent), step)
        case "launched" | "bootstrapping":
            holds.touch()
            send(agent, "better\n")
            within(30.0, lambda: (state().phase, state().active.branch) == ("booting", "better"), step)
            log = Path(agent.places.checkout("better"), "logs/bootstrap.log")
            within(30.0, lambda: step == "launched" or state().active.boot_id in log.read_text(), step)
        case "success":
            send(agent, "better\n")
            agent.serving("better")
        case "known as good":
            known = state().goods
            change(agent, "serve()")
            os.sync()
            send(agent, "main\n")
            within(30.0, lambda: state().goods != known, step)
        case _:
            send(agent, "better\n")
            agent.serving("better")
            within(30.0, lambda: is_taken(agent), step)


@pytest.mark.fault("F11", "F31", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.long)])
def test_the_power_is_cut_after_each_step(steady: Agent, disk: Ext4, tmp_path: Path, rounds: int) -> None:
    """Fault: the power is cut right after each step in the life of a version; expected: at the next start there is one
    runner, the signal is neither lost nor carried out twice, no attempt is forgotten, and repository and memory are
    whole."""
    agent, armed = steady, tmp_path / "armed"
    steps = [*STEPS] * rounds
    agent.stop()
    agent.start(PROGRAM, before=["env", f"{STOPS_AT}={steps[0]}:{armed}"])
    for step, following in zip(steps, [*steps[1:], ""], strict=True):
        agent.serving()
        os.sync()
        armed.touch()
        known = {boot.boot_id for boot in agent.state().boots}
        _reach(agent, step)
        armed.unlink()
        reached = agent.state()
        (disk.path / "unsynced").write_text("x" * 10_000)
        disk.cut_power()
        assert agent.watcher
        agent.watcher.wait()
        disk.mount()
        unsynced = disk.path / "unsynced"
        assert not unsynced.exists() or not unsynced.stat().st_size, "the control: what nobody synced is lost"
        unsynced.unlink(missing_ok=True)
        for hold in Path(agent.places.bot).glob("hold-*"):
            hold.unlink()
        for path in Path(agent.run).iterdir():  # what lies there never lives through a power cut
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        agent.start(PROGRAM, before=["env", f"{STOPS_AT}={following}:{armed}"])
        state = within(60.0, lambda seen={*known, reached.active.boot_id}: _serves(agent, seen), f"a boot after {step}")  # type: ignore[misc]
        assert state.active.branch == STEPS[step], step
        assert agent.runners() == [state.active.pid], step
        assert not os.path.exists(f"{agent.places.watcher_state}.unreadable"), step
        assert state.request is None, step
        _forgiven(agent, state)
        # By what runs: a later commit of the same code may stand for it by now.
        assert {good.id for good in reached.goods} <= {good.id for good in state.goods}, step
        served = [boot for boot in state.boots if boot.boot_id not in known and boot.outcome == "success"]
        assert len(served) == 1, (step, served)
        Git(agent.places.remote)("fsck", "--strict")  # a challenge that was cut short has gone by now
        if state.active.branch != "main":
            agent.ask(SignalName.BOOTSTRAP, "main")
    agent.stop()


BRANCHES = ("main", "new", "a/b/c")


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


def pushed_by_path(desk: Desk, branch: str) -> str:
    """By the PM, from a clone on another disk; gives the commit."""
    config = desk.root / "pm.gitconfig"
    config.write_text("[user]\n\tname = PM\n\temail = pm@example.invalid\n")
    clone = Clone(desk.root / "clone", str(config))
    clone.path.mkdir()
    clone.git("clone", "--quiet", desk.home().remote, ".")
    return clone.commit({}, to=f"HEAD:refs/heads/{branch}")


def _at(git: Git, ref: str) -> str:
    return git("for-each-ref", "--format=%(objectname)", ref)


@pytest.mark.fault("F32")
@pytest.mark.parametrize("branch", BRANCHES)
def test_a_push_by_path_is_there(agent: Desk, disk: Ext4, branch: str) -> None:
    """Fault: the power is cut when a push by path was answered; expected: it is there, also on a branch of
    new directories."""
    pushed = pushed_by_path(agent, branch)
    cut(disk)
    assert _at(agent.git(), f"refs/heads/{branch}") == pushed
    assert agent.git()("fsck", "--strict", "--no-dangling") == ""


@pytest.mark.fault("F32")
def test_without_the_hook_a_push_is_lost(agent: Desk, disk: Ext4) -> None:
    """Fault: the same without the hook; expected: the push is lost, the control of what is above."""
    os.unlink(f"{agent.home().remote}/hooks/{bare_tip.HOOK}")
    os.sync()
    pushed = pushed_by_path(agent, "main")
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
