"""kill -9 of a program that is supervised -> the first statement of the one that follows it, by the watcher and by its
peers; and a version that signals a handover -> the first statement of the next, by the watcher.

Ours looks over the git checkout and notes the attempt on the disk first, then starts a module of it; the others start a
file. supervisord and runit are left at their defaults, but for what makes them run unprivileged and in the foreground,
and one setting in their favour: supervisord is not to demand that a program lives for a second. What is killed has run
for longer than that, as runit starts nothing twice within a second, and ours falls back when one death follows another.
A branch is not rehearsed here: that is a run of its own."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.figure_start import bare_start
from bench.peers import PROGRAMS, installed
from bench.tables import Table, Way, rounds, times
from tests.keep.supervision.agents import RUNNER, Agent, within

ROUNDS = 20
BARE, RESTART, HANDOVER = "a bare start, no supervisor", "kill -9: minifram's watcher", "handover: minifram's watcher"
GOAL = 3.0
"""Of a handover."""
SETTLED_SECONDS = 1.5
FIRST_LINES = """\
import time; NOW = time.monotonic()
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

def stamp(at):
    with open(STAMPS, "a") as stamps:
        stamps.write(f"{at} {os.getpid()}\\n")

"""
SERVES = """\
say("BOOTSTRAPPING")
say("SUCCESS")
signal.sigwait([signal.SIGUSR1])
stamp(time.monotonic())
ask("bootstrap", "next" if BOOT["branch"] == "main" else "main")
os._exit(0)
"""
"""Until it is told to hand over to the other branch; it leaves at once, as a real one does."""
TIMING = "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 20, hops: 1000, probation_seconds: 1}\n"


class Stamp(NamedTuple):
    seconds: float
    pid: int


class Stamps:
    """What the programs at one place write down when they begin; the watcher's also when they signal."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "stamps"
        self._path.touch()
        self.first_lines = f"{FIRST_LINES}STAMPS = {str(self._path)!r}\nstamp(NOW)\n"
        self._seen = 0
        self.last = Stamp(0.0, 0)

    def next(self) -> Stamp:
        line = within(30.0, lambda: self._path.read_text().splitlines()[self._seen :], "the next stamp")[0]
        self._seen += 1
        self.last = Stamp(float(line.split()[0]), int(line.split()[1]))
        return self.last

    def send(self, number: signal.Signals) -> float:
        """To the last one, once it has settled, at any moment between two looks of the watcher; gives when."""
        time.sleep(max(0.0, self.last.seconds + SETTLED_SECONDS - time.monotonic()) + random.uniform(0.0, 0.1))
        sent = time.monotonic()
        os.kill(self.last.pid, number)
        return sent


def run(directory: Path, count: int) -> list[Table]:
    there, notes = installed(*KINDS)
    with contextlib.ExitStack() as cleanup:
        agent, ours = cleanup.enter_context(_watched(directory / "agent"))
        ways: dict[str, Way] = {BARE: bare_start, RESTART: partial(_restart, ours)}
        for name in there:
            theirs = cleanup.enter_context(_supervised(directory / name, KINDS[name]))
            ways[f"kill -9: {name}"] = partial(_restart, theirs)
        ways[HANDOVER] = partial(_handover, agent, ours)
        return [times("to the first statement of the next one", rounds(count, ways), {HANDOVER: GOAL}, *notes)]


def _restart(stamps: Stamps, number: int) -> float:
    killed = stamps.send(signal.SIGKILL)
    return stamps.next().seconds - killed


def _handover(agent: Agent, stamps: Stamps, number: int) -> float:
    """There, and back again, which does not count."""
    took = list[float]()
    for branch in ("next", "main"):
        stamps.send(signal.SIGUSR1)
        signalled = stamps.next()
        took.append(stamps.next().seconds - signalled.seconds)
        agent.serving(branch)
    return took[0]


@contextlib.contextmanager
def _watched(directory: Path) -> Iterator[tuple[Agent, Stamps]]:
    directory.mkdir()
    with contextlib.closing(Agent(directory, SERVES, TIMING)) as agent:
        stamps = Stamps(directory)
        (agent.clone / "infra/runner.py").write_text(stamps.first_lines + RUNNER)
        agent.commit(SERVES)
        agent.push_main()
        agent.branch("next", SERVES)
        agent.start()
        stamps.next()
        agent.serving()
        yield agent, stamps


@contextlib.contextmanager
def _supervised(directory: Path, prepare: Callable[[Path, str], list[str]]) -> Iterator[Stamps]:
    directory.mkdir()
    stamps = Stamps(directory)
    words = prepare(directory, f"{stamps.first_lines}time.sleep(3600)\n")
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(directory)}
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(words, cwd=directory, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        stamps.next()
        yield stamps
    finally:
        process.terminate()
        process.wait(30.0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(stamps.last.pid, signal.SIGKILL)


def _supervisord(directory: Path, text: str) -> list[str]:
    (directory / "program.py").write_text(text)
    config = directory / "supervisord.conf"
    config.write_text(f"""\
[supervisord]
nodaemon=true
logfile={directory}/supervisord.log
pidfile={directory}/supervisord.pid
childlogdir={directory}

[program:stamp]
command={sys.executable} -I {directory}/program.py
autorestart=true
startsecs=0
""")
    return [PROGRAMS["supervisord"], "--configuration", str(config)]


def _runit(directory: Path, text: str) -> list[str]:
    """A service's program is the script itself, so that no shell stands before it."""
    run = directory / "run"
    run.write_text(f"#!{sys.executable} -I\n{text}")
    run.chmod(0o755)
    return [PROGRAMS["runsv"], str(directory)]


KINDS = {"supervisord": _supervisord, "runsv": _runit}
