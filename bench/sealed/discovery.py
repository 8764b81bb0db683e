"""The folder `discovery/` as an ordinary user with rootless podman works in it, in a copy of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.sealed.rootless import Ended, Rootless

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
"""The host's, which has the standard library alone."""
PROCESSES = 200
"""At most, of a container that forks for ever. The kernel counts them by user, whatever the container: such a one has a
user of its own, or it would fill the others' bound."""
SECONDS = 100.0
"""For one command of the operator."""
OFFLINE = "services:\n  agent:\n    network_mode: none\n"


class Site:
    """A copy of the folder, and a container's name. The engine is a program `podman` on PATH, as an operator has it."""

    def __init__(self, user: Rootless, name: str) -> None:
        self.user = user
        self.name = name
        self.root = user.directory(name)
        shutil.copytree(ROOT / "discovery", self.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("2*Z"))
        self.programs = user.scratch / "discovery-bin"
        user.once("discovery-bin", self._make_programs)
        subprocess.run(["chmod", "-R", "a+rX", self.root], check=True)
        subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", self.root], check=True)

    def _make_programs(self) -> None:
        self.programs.mkdir(exist_ok=True)
        words = " ".join(self.user.command()[1:])
        for name, line in {
            "podman": f'exec {shutil.which("podman")} {words} "$@"',
            "podman-compose": f'exec {self.user.python()} -s -P -m podman_compose "$@"',
        }.items():
            program = self.programs / name
            program.write_text(f"#!/bin/sh\n{line}\n")
            program.chmod(0o755)
        (self.user.scratch / "no-registry.conf").write_text("unqualified-search-registries = []\n")

    def words(self, *words: str | Path, **environ: str) -> list[str]:
        """A command in the folder, with the operator's environment."""
        given = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "CONTAINERS_REGISTRIES_CONF": str(self.user.scratch / "no-registry.conf"),
            "AGENT_CONTAINER": self.name,
            "DISCOVERY_ENGINE": "podman",
            **environ,
        }
        settings = [f"{name}={value}" for name, value in given.items()]
        return ["/usr/bin/env", f"--chdir={self.root}", *settings, *map(str, words)]

    def run(self, *words: str | Path, stdin: str | None = None, check: bool = True, **environ: str) -> Ended:
        return self.user.run(*self.words(*words, **environ), stdin=stdin, check=check, timeout=SECONDS)

    def orchestrate(self, stdin: str, *words: str | Path, check: bool = True, **environ: str) -> Ended:
        """`python3 orchestrator/main.py`, with a text through the pipe."""
        return self.run(PYTHON, "orchestrator/main.py", *words, stdin=stdin, check=check, **environ)

    def podman(self, *words: str | Path, check: bool = True) -> Ended:
        return self.run("podman", *words, check=check)

    def last_run(self) -> Path:
        """The directory of the newest run."""
        return max((self.root / "runs").glob("2*"))

    def down(self) -> None:
        """Remove the container, its volume and its network."""
        self.podman("rm", "--force", "--time=0", "--ignore", self.name, check=False)
        self.run("podman-compose", "down", "--volumes", check=False)


@contextlib.contextmanager
def site(user: Rootless, network: bool = False, world: Path | None = None, forks: bool = False) -> Iterator[Site]:
    """With its container up, made by the operator's command; `world` is mounted instead of the seed world. One that
    `forks` is bounded to PROCESSES."""
    made = Site(user, f"discovery-test-{secrets.token_hex(4)}")
    more = "" if network else OFFLINE
    if forks:
        more += f'    user: "{2000 + secrets.randbelow(60_000)}"\n'
    if more:
        (made.root / "docker-compose.override.yml").write_text(more)
    try:
        with user.alone("discovery-image"):
            given = {"DISCOVERY_WORLD": str(world or ""), "DISCOVERY_PROCESSES": str(PROCESSES) if forks else ""}
            made.user.run(*made.words("podman-compose", "up", "-d", "--build", **given), timeout=SECONDS)
        yield made
    finally:
        made.down()


def block(command: str) -> str:
    """A pre-exec block that a line with '.' ends."""
    return f"<Intent>\nto see\n\n<Command>\n{command}\n.\n"


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The values of a file with one JSON value a line."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def commands_of(run: Path) -> list[dict[str, Any]]:
    """The command events of a run."""
    return [event for event in lines_of(run / "events.jsonl") if "command" in event]
