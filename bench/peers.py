"""The other supervisors: each keeps one program alive, without the network, and is ended by its pid.

All are left at their defaults but for what makes them run unprivileged and in the foreground, and two settings in
their favour: supervisord is not to demand that a program lives for a second (startsecs=0), and circus is to look at
its programs every second (check_delay), not every five. None listens on the
network: circus would, for others of its kind to find it, and is told not to."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.stamps import PATIENCE_SECONDS, Stamps, first_line_program
from infra.shared.paths import ROOT

PEERS_BIN = f"{ROOT}/.venv-bench/bin"
INSTALL = "run 'scripts/setup bench' (or 'make setup-bench'), then again"


class Missing(Exception):
    """A peer that is not installed."""


def program(name: str) -> str:
    """The path of a peer's program. Raises Missing."""
    path = PEERS_BIN if name in LOCKED else None
    found = shutil.which(name, path=path)
    if found is None:
        raise Missing(f"{name} is missing; {INSTALL}")
    return found


LOCKED = ("supervisord", "circusd", "mini", "trafilatura")
"""Taken from the peers' environment only, where the lock file says which version it is; the others are Debian's."""


class Peer:
    """One supervisor that keeps one program alive."""

    def __init__(self, name: str, directory: Path, prepare: Callable[[Path, Path], list[str]]) -> None:
        directory.mkdir()
        self.name = name
        self.stamps = Stamps(directory / "stamps")
        script = directory / "program.py"
        script.write_text(first_line_program(self.stamps.path))
        self._directory = directory
        self._command = prepare(directory, script)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": str(self._directory)}
        with open(self._directory / "output", "ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def close(self) -> None:
        """Ask it to end, with what it keeps alive; then make it."""
        if self._process:
            try:
                below = psutil.Process(self._process.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                below = []
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            for process in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.stamps.close()


def supervisord(directory: Path, script: Path) -> list[str]:
    config = directory / "supervisord.conf"
    config.write_text(f"""\
[supervisord]
nodaemon=true
logfile={directory}/supervisord.log
pidfile={directory}/supervisord.pid
childlogdir={directory}

[program:stamp]
command={sys.executable} -I {script}
autorestart=true
startsecs=0
""")
    return [program("supervisord"), "--configuration", str(config)]


def circus(directory: Path, script: Path) -> list[str]:
    config = directory / "circus.ini"
    config.write_text(f"""\
[circus]
endpoint = ipc://{directory}/endpoint
pubsub_endpoint = ipc://{directory}/pubsub
statsd = false
multicast_endpoint =
check_delay = {CIRCUS_BEAT_SECONDS:g}

[watcher:stamp]
cmd = {sys.executable} -I {script}
respawn = true
""")
    return [program("circusd"), "--log-output", str(directory / "circus.log"), str(config)]


def s6(directory: Path, script: Path) -> list[str]:
    return [program("s6-supervise"), str(_service_directory(directory, script))]


def runit(directory: Path, script: Path) -> list[str]:
    return [program("runsv"), str(_service_directory(directory, script))]


def _service_directory(directory: Path, script: Path) -> Path:
    """A directory with a program `run`: the script itself, so that no shell stands before it."""
    service = directory / "service"
    service.mkdir()
    run = service / "run"
    run.write_text(f"#!{sys.executable} -I\n{script.read_text()}")
    run.chmod(0o755)
    return service


CIRCUS = "circus"
CIRCUS_BEAT_SECONDS = 1.0

KINDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "supervisord": supervisord,
    CIRCUS: circus,
    "s6-supervise": s6,
    "runit's runsv": runit,
}
