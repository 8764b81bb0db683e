"""A desk of an ordinary user of this machine, whose agents live in real containers with a stand-in for the seal.

Nothing here touches a network: containers have none, and podman knows no registry."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from host.container.words import container_name
from host.home import AgentPaths, paths_of
from tests.host.desk import FILES, HERE, PROJECT
from tests.host.ready import Ended, Ready
from tests.sealed.support.project import Project

ENTRYPOINT = "podman/entrypoint"
CONTAINERFILE = """\
ARG BASE
FROM ${BASE}
COPY . /opt/minifram/
COPY podman/hosts /etc/hosts
RUN mkdir -p /bot /code /mnt/remote /run/minifram /var/lib/minifram
RUN chmod 700 /mnt/remote && chmod 711 /code /run/minifram
ENTRYPOINT ["/opt/minifram/podman/entrypoint"]
"""
"""Of the real one, as much as the stand-in needs: it is built in a second."""
WAIT_SECONDS = 300


class Workshop:
    """What all desks of a test run share: a user, the command, a project with a stand-in entrypoint."""

    def __init__(self, code: Project) -> None:
        self.user = user = code.user
        self.project = user.scratch / "workshop"
        self.empty, self.path = code.no_registry, str(code.root)
        self.python, self.launcher = str(user.python()), str(code.root / "tests/host/launcher.py")
        user.once("workshop", self._make)
        command = [self.python, "-s", self.launcher, "--serve"]
        self.ready = Ready(command, user.environ | {"PYTHONPATH": self.path}, user.uid, user.gid, "/")

    def _make(self) -> None:
        write_project(self.project)
        for path in [self.project, *self.project.rglob("*")]:
            os.chown(path, self.user.uid, self.user.gid, follow_symlinks=False)


def write_project(project: Path, **more: str) -> None:
    """A small whole project; `more` are files of its `infra`, by name."""
    files = FILES | {
        "nftables/egress.nft": "# none here\n",
        "podman/hosts": (PROJECT / "podman/hosts").read_text(),
        "podman/seccomp.json": (PROJECT / "podman/seccomp.json").read_text(),
        ENTRYPOINT: (HERE / "stand_in.py").read_text(),
        "requirements.lock": "",
        "Containerfile": CONTAINERFILE,
    }
    for name, content in (files | {f"infra/{name}": content for name, content in more.items()}).items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (project / ENTRYPOINT).chmod(0o755)


class ContainerDesk:
    """One agent of that user's, under a name of its own."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.user = workshop.user
        self.agent = f"t{secrets.token_hex(4)}"
        self.project = workshop.project
        self.container = container_name(self.agent)
        self.environ = self.user.environ | {
            "MINIFRAM_AGENT": self.agent,
            "PYTHONPATH": workshop.path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "CONTAINERS_REGISTRIES_CONF": str(workshop.empty),
            "LAUNCH_WITH_NETWORK": "none",
        }

    @property
    def home(self) -> AgentPaths:
        return paths_of(self.agent, self.environ, self.user.uid)

    def spawn(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        given = [f"{name}={value}" for name, value in (self.environ | environ).items()]
        program = [self.workshop.python, "-s", self.workshop.launcher, str(self.project), "no-watcher-of-this-kind"]
        return self.user.popen("/usr/bin/env", *given, *program, *words)

    def call(self, *words: str, **environ: str) -> Ended:
        """`spawn`, waited for."""
        command = [str(self.project), "no-watcher-of-this-kind", *words]
        return self.workshop.ready.call(command, self.environ | environ, WAIT_SECONDS)

    def done(self, *words: str, **environ: str) -> Ended:
        ended = self.call(*words, **environ)
        assert ended.code == 0, ended
        return ended

    def settings(self, text: str) -> None:
        Path(self.home.settings).write_text(text)

    def behave(self, how: str) -> None:
        self.settings(f"sandbox: podman\nmodel: {{provider: scripted}}\n# stand-in: {how}\n")

    def podman(self, *words: str, check: bool = True, stdin: str | None = None) -> str:
        return self.user.podman(*words, check=check, stdin=stdin).stdout.strip()

    def is_there(self) -> bool:
        """Whether podman has a container of this agent's name."""
        return self.container in self.podman("ps", "--all", "--format={{.Names}}").split()

    def inspected(self) -> dict[str, Any]:
        told = json.loads(self.podman("container", "inspect", self.container))
        return dict(told[0])

    def seen(self) -> dict[str, Any]:
        """What the stand-in saw inside."""
        return dict(json.loads(Path(self.home.state, "seen.json").read_text()))

    def put_away(self) -> None:
        """The container goes; project and settings are as at the beginning."""
        self.podman("rm", "--force", "--time=0", "--ignore", self.container)
        self.project = self.workshop.project
        self.behave("works")

    def clear(self) -> None:
        self.put_away()
        home = self.home
        places = [home.data, home.state, os.path.dirname(home.settings), home.run]
        self.user.podman("unshare", "rm", "-rf", *places)


@contextlib.contextmanager
def a_desk(workshop: Workshop) -> Iterator[ContainerDesk]:
    """A desk with an initialised agent, cleared away afterwards."""
    desk = ContainerDesk(workshop)
    try:
        with desk.user.alone("init"):  # which refuses while another of this user's agents is made
            desk.done("init", "--sandbox", "podman", "--model", "scripted")
        assert os.path.exists(desk.home.settings)
        yield desk
    finally:
        desk.clear()
