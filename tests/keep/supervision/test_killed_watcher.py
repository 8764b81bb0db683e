"""kill -9 of the watcher at any moment, and what a long life costs it."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from infra.keep.services.processes import is_alive
from infra.shared.repository.git import Git
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
MakeAgent = Callable[..., Agent]
SLOW = pytest.mark.timeout(400)

HOPPER = """import fcntl
one = open(f"{BOT}/one", "w")
def write(*words):
    with open(f"{BOT}/history", "a") as history:
        history.write(" ".join([*words, BOOT["branch"], BOOT["reason"].split(":")[0]]) + "\\n")
try:
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    write("overlap")
write("boot")
say("BOOTSTRAPPING")
if os.path.exists(f"{BOT}/enough"):
    say("SUCCESS")
    time.sleep(600)
subprocess.Popen(["setsid", "sleep", "300"])
say("SUCCESS")
time.sleep(0.05)
target = {"main": "left", "left": "right", "right": "main"}[BOOT["branch"]]
ask("bootstrap", target)
write("asked", target)
"""


def runners(agent: Agent) -> list[psutil.Process]:
    """Living processes that were started within a boot of this agent."""
    found = []
    for process in psutil.process_iter():
        try:
            if agent.places.bot in process.environ().get("MINIFRAM_BOOT", ""):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.fault("F11")
@pytest.mark.parametrize(("seed", "rounds"), [(1, 6), pytest.param(2, 40, marks=[pytest.mark.long, SLOW])])
def test_every_signal_is_carried_out_once_whenever_the_watcher_is_killed(
    make_agent: MakeAgent, seed: int, rounds: int
) -> None:
    """Killed at random moments of an endless hop: one runner at a time, each signal led to a launch of its branch, that
    may have ended with the watcher, unless a boot of it was cut short before and so counts as failed; nothing is left.
    """
    chance = random.Random(seed)
    agent = make_agent(HOPPER)
    agent.branch("left", HOPPER)
    agent.branch("right", HOPPER)
    history, pinned = Path(agent.places.bot, "history"), set[str]()
    for number in range(rounds):
        begun, asked = _begun(agent), _asked(history)
        watcher = agent.start()
        if number % 4 == 0:  # however busy the machine is, there are hops to kill it in
            # A boot that was cut short may have pinned its branch, and then nobody hops there any more; after several
            # of main the next one waits for up to a minute.
            within(90.0, lambda asked=asked: _asked(history) > asked or agent.state().pins, "a hop")  # type: ignore[misc]
        elif chance.random() < 0.75:
            within(30.0, lambda begun=begun: _begun(agent) > begun, "a start")  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 0.6))  # the moment is the test
        watcher.kill()
        watcher.wait()
        within(30.0, lambda: not is_alive(agent.state().active.pid), "its runner ended too")
        pinned |= {pin.branch for pin in agent.state().strikes}
        with history.open("a") as so_far:
            so_far.write(f"killed {' '.join(f'{boot.branch} {boot.reason}' for boot in agent.state().boots[-1:])}\n")
    Path(agent.places.bot, "enough").touch()
    agent.start()
    state = within(90.0, lambda: agent.state() if _settled(agent) else None, "a runner that stays")
    pinned |= {pin.branch for pin in state.strikes}
    lines = history.read_text().splitlines()
    assert _asked(history) >= rounds // 4, "the control: there was hopping"
    assert not [line for line in lines if line.startswith("overlap")]
    for number, line in enumerate(lines):
        assert not line.startswith("boot") or number == 0 or not lines[number - 1].startswith("boot"), lines
        target = line.split()[1]
        if line.startswith("asked") and target not in pinned:
            led = [f"{word} {target} bootstrap" for word in ("boot", "killed")]
            led += ["boot main start"] if target == "main" else []
            until = next(after for after in range(number + 1, len(lines)) if lines[after].startswith("boot"))
            assert set(lines[number + 1 : until + 1]) & set(led), lines
    assert [name for name in os.listdir(agent.places.signals) if not name.startswith(".tmp")] == []
    # The tip of main may be a report since.
    remote, active = Git(agent.places.remote), state.active
    assert remote("rev-parse", f"{active.commit}:infra") == remote("rev-parse", f"refs/heads/{active.branch}:infra")
    remote("merge-base", "--is-ancestor", active.commit, f"refs/heads/{active.branch}")
    subprocess.run(["git", "-C", agent.places.remote, "fsck", "--strict"], check=True, capture_output=True)
    assert "look.failed" not in agent.log()
    assert "action.failed" not in agent.log()


def _settled(agent: Agent) -> bool:
    state = agent.state()
    alive = [process.pid for process in runners(agent)]
    return state.phase == "running" and alive == [state.active.pid] and state.request is None


@pytest.mark.fault("F54", "F62")
def test_a_long_life_leaks_nothing(make_agent: MakeAgent) -> None:
    """After 50 more boots the watcher has the same open files, threads and children, and hardly more memory."""
    agent = make_agent('say("BOOTSTRAPPING"); say("SUCCESS"); ask("bootstrap", "main")')
    watcher = psutil.Process(agent.start().pid)

    def after(boots: int) -> tuple[int, int, int, int]:
        def look() -> bool:
            log = Path(agent.places.watcher_log)
            return log.exists() and log.read_text().count("runner.launched") >= boots

        within(60.0, look, f"{boots} boots")
        watcher.suspend()
        children = [child for child in watcher.children() if child.status() == psutil.STATUS_ZOMBIE]
        counts = watcher.num_fds(), watcher.num_threads(), len(children), watcher.memory_info().rss
        watcher.resume()
        return counts

    before, then = after(15), after(65)
    assert abs(then[0] - before[0]) <= 4, "a boot under way may hold a few"
    assert then[1] == before[1]
    assert then[2] <= 2
    assert then[3] - before[3] < 4 * 1024 * 1024
    assert len(agent.state().boots) <= 20


@pytest.mark.fault("F12")
def test_a_stop_at_any_moment_of_the_start_is_orderly(make_agent: MakeAgent) -> None:
    """SIGTERM while the watcher begins, launches or waits for SUCCESS: it leaves with 0 and leaves nobody behind."""
    agent = make_agent('say("BOOTSTRAPPING"); time.sleep(60)')
    for number in range(5):
        agent.start()
        within(30.0, lambda number=number: _begun(agent) > number, "a start")  # type: ignore[misc]
        time.sleep(number * 0.05)  # the moment is the test
        assert agent.stop() == 0
        assert runners(agent) == []
        assert agent.state().phase == "stopped"


def _begun(agent: Agent) -> int:
    path = Path(agent.places.watcher_log)
    return path.read_text().count("watcher.started") if path.exists() else 0


def _asked(history: Path) -> int:
    return history.read_text().count("asked ") if history.exists() else 0
