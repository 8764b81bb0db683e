"""The power is cut: an ext4 that stops in the middle of what is under way, and is mounted again."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.keep.repository.bare_tip import RETRY_REF
from infra.keep.watcher_file import State
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.faults.disks import Ext4
from tests.faults.grown import grown
from tests.faults.stopping_watcher import PROGRAM, STOPS_AT
from tests.keep.supervision.agents import Agent, within
from tests.keep.supervision.test_killed_watcher import runners

pytestmark = pytest.mark.heavy


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    made = Ext4(tmp_path)
    made.mount()
    yield made
    made.unmount()


def empty_run(agent: Agent) -> None:
    """What lies there never lives through a power cut."""
    for path in Path(agent.run).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


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
            with (agent.clone / "infra/runner.py").open("a") as runner:
                runner.write(f"# {time.time_ns()}\n")
            agent.commit("serve()")
            agent.push_main()
            os.sync()
            send(agent, "main\n")
            within(30.0, lambda: state().goods != known, step)
        case _:
            send(agent, "better\n")
            agent.serving("better")
            within(30.0, lambda: is_taken(agent), step)


@pytest.mark.fault("F31", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9")
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
        empty_run(agent)
        agent.start(PROGRAM, before=["env", f"{STOPS_AT}={following}:{armed}"])
        state = within(60.0, lambda seen={*known, reached.active.boot_id}: _serves(agent, seen), f"a boot after {step}")  # type: ignore[misc]
        assert state.active.branch == STEPS[step], step
        assert [process.pid for process in runners(agent)] == [state.active.pid], step
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
