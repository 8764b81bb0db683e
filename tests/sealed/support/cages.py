"""Containers of a bare image, sealed as `minifram up` seals an agent's or with no fences at all."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from host.container.words import MIB, fences, scratch
from infra.shared.paths import CONTAINER
from tests.sealed.support.rootless import Rootless

ROOT = Path(__file__).parents[3]
PROFILE = (ROOT / "podman/seccomp.json").read_text()
PROGRAMS = ROOT / "tests/sealed/inside"
"""To be read in them, as a package below /probe."""
MARK = errno.EXFULL  # no call of the kernel fails with it
SHELVES = (
    scratch(CONTAINER.run, 0o711, 16 * MIB),
    scratch("/var/tmp", 0o1777, 16 * MIB),
    scratch("/bot", 0o1777, 256 * MIB, executable=True),  # in the place of the agent's own
)
RUN = ("run", "--rm", "--interactive", "--timeout=120")  # it ends, also when whoever waits for it is killed


def marked(refusal: int) -> dict[str, Any]:
    """The profile, with refusals that can be told from the kernel's."""
    profile: dict[str, Any] = json.loads(PROFILE)
    assert profile["defaultErrnoRet"] == errno.EPERM
    return profile | {"defaultErrnoRet": refusal}


class Cages:
    """Containers with and without fences, all of one user."""

    def __init__(self, user: Rootless) -> None:
        self.user = user
        self._probe = [
            f"--volume={user.scratch / PROGRAMS.name}:/probe/{PROGRAMS.name}:ro",
            "--env=MALLOC_ARENA_MAX=2",  # many threads also where addresses are limited (ulimit -v)
            "--env=PYTHONPATH=/probe",
            "--env=PYTHONDONTWRITEBYTECODE=1",
        ]

        def make() -> None:
            shutil.copytree(PROGRAMS, user.scratch / PROGRAMS.name, ignore=shutil.ignore_patterns("__pycache__"))
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
        hosts = f"--volume={self.user.scratch / 'hosts'}:/etc/hosts:ro"  # as the project's image has it
        return [
            *RUN,
            *fences(str(self.user.scratch / profile), "none"),
            f"--ulimit=nproc={processes}:{processes}",
            f"--ulimit=nofile={open_files}:{open_files}",
            *SHELVES,
            scratch("/tmp", 0o1777, tmp_bytes, executable=True),
            *self._probe,
            hosts,
            *words,
            self.user.base(),
            *command,
        ]

    def open(self, *command: str) -> list[str]:
        """A container without fences, as far as podman lets an ordinary user have one."""
        writable = ("--tmpfs=/dev/shm:exec", *(f"--tmpfs={path}:exec" for path in ("/tmp", "/var/tmp", "/run")))
        words = ("--privileged", "--network=none", *self.user.limits(), *writable, *self._probe)
        return [*RUN, *words, self.user.base(), *command]

    def rows(self, words: Sequence[str], timeout: float = 110.0) -> Any:
        """What the program in the container prints, which is JSON."""
        return json.loads(self.user.podman(*words, timeout=timeout).stdout)
