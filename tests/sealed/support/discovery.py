"""The folder `discovery/` as an ordinary user with rootless podman works in it, in a copy of its own."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.sealed.support.rootless import Ended, Rootless

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"
"""The host's, which has the standard library alone."""
SECONDS = 100.0
"""For one command of the operator."""


class Site:
    """A copy of the folder, and a container's name. The engine is a program `podman` on PATH, as an operator has it."""

    def __init__(self, user: Rootless, name: str) -> None:
        self.user = user
        self.name = name
        self.root = user.directory(name)
        shutil.copytree(ROOT / "discovery", self.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("2*Z"))
        self._programs = self.root / "bin"
        self._programs.mkdir()
        for program, line in {
            "podman": f'{shutil.which("podman")} {" ".join(user.command()[1:])} "$@"',
            "podman-compose": f'{user.python()} -s -P -m podman_compose "$@"',
        }.items():
            (self._programs / program).write_text(f"#!/bin/sh\nexec {line}\n")
            (self._programs / program).chmod(0o755)
        (self.root / "registries.conf").write_text("unqualified-search-registries = []\n")
        subprocess.run(["chmod", "-R", "a+rX", self.root], check=True)
        subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", self.root], check=True)

    def run(self, *words: str | Path, stdin: str | None = None, check: bool = True) -> Ended:
        """A command in the folder, with the operator's environment."""
        given = {
            "PATH": f"{self._programs}:/usr/bin:/bin",
            "CONTAINERS_REGISTRIES_CONF": str(self.root / "registries.conf"),
            "AGENT_CONTAINER": self.name,
            "DISCOVERY_ENGINE": "podman",
        }
        settings = [f"{name}={value}" for name, value in given.items()]
        command = ["/usr/bin/env", f"--chdir={self.root}", *settings, *map(str, words)]
        return self.user.run(*command, stdin=stdin, check=check, timeout=SECONDS)


@contextlib.contextmanager
def site(user: Rootless) -> Iterator[Site]:
    """With its container up, made by the operator's command."""
    made = Site(user, f"discovery-test-{secrets.token_hex(4)}")
    try:
        with user.alone("discovery-image"):
            made.run("podman-compose", "up", "-d", "--build")
        yield made
    finally:
        made.run("podman", "rm", "--force", "--time=0", "--ignore", made.name, check=False)
        made.run("podman-compose", "down", "--volumes", check=False)
