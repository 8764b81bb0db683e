"""The power is cut at random moments: an ext4 that stops in the middle of what is under way, and is mounted again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.keep.repository.bare_tip import RETRY_REF
from infra.keep.watcher_file import State
from infra.shared.paths import ARCHIVE
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
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


@pytest.fixture
def agent(disk: Ext4) -> Iterator[Agent]:
    """All that is its own lies on the disk, with a branch to hop to, and is known to be there."""
    directory = disk.path / "agent"
    directory.mkdir()
    made: list[Agent] = []

    def make(settings: str) -> Agent:
        made.append(Agent(directory, settings=settings))
        return made[0]

    yield _with_a_branch(grown(make)[0])
    made[0].close()


def _with_a_branch(agent: Agent) -> Agent:
    agent.branch("better", "serve()")
    os.sync()
    return agent


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


class Sender:
    """Puts refused signals into the agent's directory, one after the other, each on the disk before the next."""

    def __init__(self, agent: Agent) -> None:
        self._directory = Path(agent.places.signals)
        self.sent = 0

    def send(self, name: str, text: str) -> None:
        """Durably: what the sender itself lost is not the watcher's."""
        half = self._directory / ".half"
        with half.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        half.rename(self._directory / name)
        descriptor = os.open(self._directory, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def is_taken(self) -> bool:
        """The watcher has decided upon the last one, remembered it, and deleted the file."""
        return not any(os.path.lexists(self._directory / name) for name in ("bootstrap", ".claimed-bootstrap"))

    def until(self, moment: float) -> None:
        while time.monotonic() < moment:
            if self._directory.is_dir() and self.is_taken():
                self.send("bootstrap", f"-refused-{self.sent}-\n")
                self.sent += 1
            time.sleep(0.02)


@pytest.mark.fault("F31")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("cuts", [6, pytest.param(20, marks=pytest.mark.long)])
def test_the_power_is_cut_at_any_moment(agent: Agent, disk: Ext4, cuts: int) -> None:
    """Fault: the power is cut again and again, at random moments of booting, hopping and telling; expected: each time
    the watcher starts on what is left and serves, repository and memory are whole, each signal is carried out, and a
    report of it is made once, or only counted where it is of a kind that this watcher has told twice."""
    chance = random.Random(11)
    sender, lost = Sender(agent), 0
    firsts: list[int] = []
    for number in range(cuts):
        known = {boot.boot_id for boot in agent.state().boots}
        hops = number % 2 == 1
        if hops:
            agent.serving(agent.state().active.branch or "main")
            within(30.0, sender.is_taken, "the signal before taken")
            agent.ask(SignalName.BOOTSTRAP, "better")
            within(30.0, sender.is_taken, "the hop's signal taken")
            time.sleep(chance.uniform(0.0, 0.4))  # the moment is the test
        else:
            first = sender.sent
            sender.until(time.monotonic() + chance.uniform(0.0, 1.5))
            firsts += [first] if sender.sent > first else []
        (disk.path / "unsynced").write_text("x" * 10_000)
        disk.cut_power()
        if agent.watcher:
            agent.watcher.wait()
        disk.mount()
        unsynced = disk.path / "unsynced"
        lost += not unsynced.exists() or unsynced.stat().st_size == 0
        unsynced.unlink(missing_ok=True)
        Git(agent.places.remote)("fsck", "--strict")
        empty_run(agent)
        agent.start()
        state = within(60.0, lambda known=known: _serves(agent, known), f"a new boot serving after cut {number}")  # type: ignore[misc]
        assert not os.path.exists(f"{agent.places.watcher_state}.unreadable")
        _forgiven(agent, state)
        if hops:
            new = [boot for boot in state.boots if boot.boot_id not in known]
            assert [boot for boot in new if (boot.branch, boot.reason) == ("better", "bootstrap")], new
    assert lost > cuts // 2, "the control: what nobody synced is lost"
    # The cut may have left a lock on main, which is looked at for a while before it goes.
    within(60.0, lambda: sender.is_taken() and not agent.state().untold, "all told")
    words = agent.comms() + (read_file(Git(agent.places.remote), "refs/heads/main", ARCHIVE) or "")
    told = {number: words.count(f"-refused-{number}-") for number in range(sender.sent)}
    wrong = {number: count for number, count in told.items() if count > 1 or (number in firsts and not count)}
    assert not wrong, f"of {sender.sent} reports, told twice, or not though the first of a watcher's: {wrong}"
    assert len(firsts) > cuts // 4
    assert sender.sent > cuts // 3
    agent.stop()


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
    sender, state = Sender(agent), agent.state
    holds = Path(agent.places.bot, f"hold-{step}")
    match step:
        case "signal written":
            agent.watcher.send_signal(signal.SIGSTOP)
            sender.send("bootstrap", "better\n")
        case "claimed" | "attempt noted":
            sender.send("bootstrap", "better\n")
            within(30.0, lambda: _is_stopped(agent), step)
        case "clone made":
            shutil.rmtree(agent.places.main_checkout)
            os.kill(state().active.pid, signal.SIGKILL)
            within(30.0, lambda: _is_stopped(agent), step)
        case "launched" | "bootstrapping":
            holds.touch()
            sender.send("bootstrap", "better\n")
            within(30.0, lambda: (state().phase, state().active.branch) == ("booting", "better"), step)
            log = Path(agent.places.checkout("better"), "logs/bootstrap.log")
            within(30.0, lambda: step == "launched" or state().active.boot_id in log.read_text(), step)
        case "success":
            sender.send("bootstrap", "better\n")
            agent.serving("better")
        case "known as good":
            known = state().goods
            with (agent.clone / "infra/runner.py").open("a") as runner:
                runner.write(f"# {time.time_ns()}\n")
            agent.commit("serve()")
            agent.push_main()
            os.sync()
            sender.send("bootstrap", "main\n")
            within(30.0, lambda: state().goods != known, step)
        case _:
            sender.send("bootstrap", "better\n")
            agent.serving("better")
            within(30.0, sender.is_taken, step)


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
        disk.cut_power()
        assert agent.watcher
        agent.watcher.wait()
        disk.mount()
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
