"""kill -9 of the watcher at any moment, and what a long life costs it."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.keep.supervision.agents import Agent, within
from tests.keep.supervision.timed_watcher import OF_THE_PM

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


@pytest.mark.parametrize(("seed", "rounds"), [(1, 6), pytest.param(2, 40, marks=[pytest.mark.long, SLOW])])
def test_every_signal_is_carried_out_once_whenever_the_watcher_is_killed(
    make_agent: MakeAgent, seed: int, rounds: int
) -> None:
    """Killed at random moments of an endless hop: one runner at a time, each signal led to its branch, nothing left."""
    chance = random.Random(seed)
    agent = make_agent(HOPPER)
    agent.branch("left", HOPPER)
    agent.branch("right", HOPPER)
    history = Path(agent.places.bot, "history")
    killed = False
    for number in range(rounds):
        begun, asked = _begun(agent), _asked(history)
        watcher = agent.start()
        if number % 4 == 0:  # however busy the machine is, there are hops to kill it in
            within(30.0, lambda asked=asked: _asked(history) > asked, "a hop")  # type: ignore[misc]
        elif chance.random() < 0.75:
            within(30.0, lambda begun=begun: _begun(agent) > begun, "a start")  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 0.6))  # the moment is the test
        watcher.kill()
        watcher.wait()
        if chance.random() < 0.3 and not killed:  # a version that dies again and again would be pinned
            killed = True
            for process in runners(agent):
                process.kill()
            with history.open("a") as so_far:
                so_far.write("killed by the test\n")
    Path(agent.places.bot, "enough").touch()
    agent.start()
    state = within(30.0, lambda: agent.state() if _settled(agent) else None, "a runner that stays")
    assert len(runners(agent)) == 1
    lines = history.read_text().splitlines()
    assert _asked(history) >= rounds // 4, "the control: there was hopping"
    assert not [line for line in lines if line.startswith("overlap")]
    for line, following in itertools.pairwise(lines):
        if line.startswith("asked"):
            target = line.split()[1]
            assert following in (f"boot {target} bootstrap", "killed by the test")
    assert [name for name in os.listdir(agent.places.signals) if not name.startswith(".tmp")] == []
    legitimate = agent.git("ls-remote", "origin", state.branch).split()[0]
    assert state.commit == legitimate
    subprocess.run(["git", "-C", agent.places.remote, "fsck", "--strict"], check=True, capture_output=True)
    assert "look.failed" not in agent.log()
    assert "action.failed" not in agent.log()


@pytest.mark.parametrize("kills", [7, pytest.param(40, marks=[pytest.mark.long, SLOW])])
def test_every_report_is_made_once_whenever_the_watcher_is_killed(make_agent: MakeAgent, kills: int) -> None:
    """Refused signals, each with its own reason, and a watcher that is killed at any moment of telling or counting."""
    chance = random.Random(3)
    agent = make_agent()
    for number in range(kills):
        watcher = agent.start()
        within(30.0, lambda number=number: _begun(agent) > number, "a start")  # type: ignore[misc]
        signal_file = Path(agent.places.signals, "bootstrap")
        within(30.0, lambda: not signal_file.exists(), "the one before to be claimed")  # noqa: B023
        half = Path(agent.places.signals, ".tmp")
        half.write_text(f"-no-branch-{number}-\n")
        half.rename(signal_file)
        time.sleep(chance.uniform(0.0, 0.15))  # the moment is the test
        watcher.kill()
        watcher.wait()
    agent.start()
    within(30.0, lambda: _begun(agent) > kills, "a last start")
    within(30.0, lambda: not any(os.path.lexists(signal_file.with_name(each)) for each in NAMES), "the last one taken")
    within(30.0, lambda: agent.state().phase == "running" and not agent.state().untold, "nothing left to tell")
    words = agent.comms() + agent.archive()
    told = {number: words.count(f"-no-branch-{number}-") for number in range(kills)}
    counted = "\n".join(line for line in agent.log().splitlines() if "report.counted" in line)
    # The third of a kind in one watcher's life is only counted: a start may find the one before, still claimed.
    assert told == {number: 0 if f"-no-branch-{number}-" in counted else 1 for number in told}
    assert list(told.values()).count(0) <= kills // 3


NAMES = ("bootstrap", ".claimed-bootstrap")


def _settled(agent: Agent) -> bool:
    state = agent.state()
    alive = [process.pid for process in runners(agent)]
    return state.phase == "running" and alive == [state.runner_pid] and state.request is None


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


def test_doors_of_a_killed_watcher_give_way(make_agent: MakeAgent) -> None:
    """A door that a killed watcher could not take with it does not keep its socket from the next one's."""
    from infra.keep import arguments
    from infra.keep.programs import keep_command, keep_environment

    agent = make_agent()
    os.makedirs(agent.places.var)
    settings = Path(f"{agent.settings}{OF_THE_PM}")
    settings.write_text("{}\n")
    command = keep_command("infra.model_door", *arguments.words(str(settings), agent.places))
    with open(agent.directory / "door.err", "wb") as errors:
        door = subprocess.Popen(command, env=keep_environment(), cwd="/", stderr=errors)
    within(30.0, lambda: os.path.exists(agent.places.model_socket), "the orphan's socket")
    agent.start()
    agent.serving()
    assert door.wait(30) in (-signal.SIGTERM, -signal.SIGKILL, 0)
    assert agent.log().count('"event": "door.died"') == 0
