"""What is supervised, and by whom: programs that write down when their first statement ran, the small agent of the
watcher's tests with its real watcher, and the supervisors that are its peers, each of which keeps one program alive.

supervisord and runit are left at their defaults, but for what makes them run unprivileged and in the foreground, and
one setting in their favour: supervisord is not to demand that a program lives for a second (startsecs=0)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.peers import PROGRAMS
from tests.keep.supervision.agents import RUNNER, Agent

PATIENCE_SECONDS = 30.0
RECORD_BYTES = 64
FIRST_LINES = """\
import time; NOW = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
import os

def stamp(word, now=None):
    now = now or time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    with open({path!r}, "wb") as fifo:
        fifo.write(b"%-{bytes}b" % f"{{word}} {{now}} {{os.getpid()}}".encode())

stamp("first", NOW)
"""
"""What a program begins with whose start is measured; `time` is built into the interpreter."""


class Stamp(NamedTuple):
    seconds: float
    pid: int


class Stamps:
    """The reading end of one FIFO, which lies at `path`."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        # Read and write, so that there is always a reader: no writer ever waits, and no end of file is seen.
        self._fifo = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.first_lines = FIRST_LINES.format(path=str(path), bytes=RECORD_BYTES)

    def next(self, word: str, what: str) -> Stamp:
        """The next stamp with that word; others are dropped. Raises TimeoutError that says what was awaited."""
        until = now() + PATIENCE_SECONDS
        while select.select([self._fifo], [], [], max(0.0, until - now()))[0]:
            said, at, pid = os.read(self._fifo, RECORD_BYTES).decode().split()
            if said == word:
                return Stamp(int(at) / 1e9, int(pid))
        raise TimeoutError(f"{what}: no {word!r} within {PATIENCE_SECONDS:g} s")

    def close(self) -> None:
        os.close(self._fifo)


def now() -> float:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e9


def bare_start(number: int) -> float:
    """The reference of all that starts a program: this interpreter, to its first statement."""
    began = now()
    statement = "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))"
    ran = subprocess.run([sys.executable, "-E", "-s", "-c", statement], capture_output=True, check=True)
    return int(ran.stdout) / 1e9 - began


SERVES = """\
say("BOOTSTRAPPING")
say("SUCCESS")
with open(ORDERS) as orders:
    target = orders.readline().strip()
stamp("signal")
ask("bootstrap", target)
os._exit(0)
"""
"""Waits for the name of a branch, signals it and leaves at once."""


class StampedAgent(Agent):
    def __init__(self, directory: Path, settings: str) -> None:
        directory.mkdir()
        super().__init__(directory, SERVES, settings)
        self.stamps = Stamps(directory / "stamps")
        os.mkfifo(directory / "orders", 0o600)
        self._orders = os.open(directory / "orders", os.O_RDWR | os.O_CLOEXEC)
        orders = f"ORDERS = {str(directory / 'orders')!r}\n"
        (self.clone / "infra/runner.py").write_text(self.stamps.first_lines + orders + RUNNER)
        self.commit(SERVES)
        self.git("push", "-q", "origin", "main")

    def order(self, branch: str) -> None:
        """Have the runner signal `branch` and leave."""
        os.write(self._orders, f"{branch}\n".encode())

    def close(self) -> None:
        super().close()
        self.stamps.close()
        os.close(self._orders)


@contextlib.contextmanager
def started(directory: Path, settings: str) -> Iterator[StampedAgent]:
    """With its watcher."""
    settings = f"timing: {{rehearse: false, grace_seconds: 1, {settings}}}\n"
    with contextlib.closing(StampedAgent(directory, settings)) as agent:
        agent.start()
        yield agent


class Supervisor:
    """One that keeps a program alive which stamps its first statement and sleeps."""

    def __init__(self, directory: Path, prepare: Callable[[Path, str], list[str]]) -> None:
        directory.mkdir()
        self.stamps = Stamps(directory / "stamps")
        words = prepare(directory, f"{self.stamps.first_lines}while True:\n    time.sleep(3600)\n")
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(directory)}
        with open(directory / "output", "wb") as output:
            self._process = subprocess.Popen(
                words, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.pid = self._process.pid
        self.program = self.stamps.next("first", f"{words[0]} starting its program")

    def close(self) -> None:
        """Ask it to end, and then what it has kept alive."""
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.program.pid, signal.SIGKILL)
        self.stamps.close()


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
