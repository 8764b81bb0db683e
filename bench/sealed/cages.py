"""Containers of a bare image, sealed as `minifram up` seals an agent's or with no fences at all."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.sealed.rootless import Rootless
from host.container.words import MIB, NETWORKS, ResourceLimits, Scratch, Sealing, create_words
from infra.shared.paths import CONTAINER

ROOT = Path(__file__).parents[2]
PROFILE = (ROOT / "podman/seccomp.json").read_text()
MARK = errno.EXFULL  # no call of the kernel fails with it
BOT = Scratch("/bot", 0o1777, 256 * MIB, executable=True)  # in the place of the agent's volume
SHELVES = (Scratch(CONTAINER.run, 0o711, 16 * MIB), Scratch("/var/tmp", 0o1777, 16 * MIB), BOT)
RUN = ("run", "--rm", "--interactive", "--timeout=120")  # it ends, also when whoever waits for it is killed


def marked(refusal: int) -> dict[str, Any]:
    """The profile, with refusals that can be told from the kernel's."""
    profile: dict[str, Any] = json.loads(PROFILE)
    assert profile["defaultErrnoRet"] == errno.EPERM
    return profile | {"defaultErrnoRet": refusal}


class Cages:
    """Containers with and without fences, all of one user."""

    def __init__(self, user: Rootless, programs: Path | None = None) -> None:
        """`programs`: a folder that is to be read in them, as a package below /probe."""
        self.user = user
        self._probes = [f"--volume={user.scratch / programs.name}:/probe/{programs.name}:ro"] if programs else []

        def make() -> None:
            if programs:
                shutil.copytree(programs, user.scratch / programs.name, ignore=shutil.ignore_patterns("__pycache__"))
            user.put("seccomp.json", PROFILE)
            user.put("hosts", (ROOT / "podman/hosts").read_text())
            user.put("marked.json", json.dumps(marked(MARK)))

        user.once("cages", make)

    def sealed(
        self,
        *command: str,
        profile: str = "seccomp.json",
        words: Iterable[str] = (),
        processes: int = 4096,
        open_files: int = 4096,
        tmp_bytes: int = 64 * MIB,
    ) -> list[str]:
        """Behind `podman`: a container as `up` makes it, of a bare image and with no network; it begins at once.

        The user's own storage of the agent is left out, as what is in it is for others to examine."""
        sealing = Sealing(
            agent="trial",
            name="",
            home="",
            image=self.user.base(),
            version="",
            seccomp=self._profile(profile),
            binds=(),
            volumes=(),
            scratch=(*SHELVES, Scratch("/tmp", 0o1777, tmp_bytes, executable=True)),
            secrets=(),
            limits=ResourceLimits(processes, open_files, None, None, None),
            network=NETWORKS["none"],
            stop_seconds=1,
            log_driver="k8s-file",
            log_bytes=MIB,
            relabels=False,
            command=command,
        )
        told = [word for word in create_words(sealing)[1:] if word != "--name="]
        image = told.index(sealing.image)
        hosts = f"--volume={self.user.scratch / 'hosts'}:/etc/hosts:ro"  # as the project's image has it
        return [*RUN, *told[:image], *self._probe(), hosts, *words, *told[image:]]

    def open(self, *command: str) -> list[str]:
        """A container without fences, as far as podman lets an ordinary user have one."""
        writable = ("--tmpfs=/dev/shm:exec", *(f"--tmpfs={path}:exec" for path in ("/tmp", "/var/tmp", "/run")))
        words = ("--privileged", "--network=none", *self.user.limits(), *writable, *self._probe())
        return [*RUN, *words, self.user.base(), *command]

    def rows(self, words: Sequence[str], timeout: float = 110.0) -> Any:
        """What the program in the container prints, which is JSON."""
        return json.loads(self.user.podman(*words, timeout=timeout).stdout)

    def _profile(self, name: str) -> str:
        return name if name == "unconfined" else str(self.user.scratch / name)

    def _probe(self) -> list[str]:
        return [
            *self._probes,
            "--env=MALLOC_ARENA_MAX=2",  # many threads also where addresses are limited (ulimit -v)
            "--env=PYTHONPATH=/probe",
            "--env=PYTHONDONTWRITEBYTECODE=1",
        ]
